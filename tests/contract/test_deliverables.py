"""The documents and the workflow that seed 001 asks for exist and say what it asks for."""

from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROVIDERS = ("stripe", "twilio", "whatsapp", "daily")


@pytest.mark.acceptance("criterion-4", "box-6")
@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_provider_page_has_verification_idempotency_and_a_sample(provider: str) -> None:
    page = (ROOT / "docs" / "integrations" / f"{provider}.md").read_text(encoding="utf-8")
    for part in ("## What is verified", "def verify(", "## Our calls", "dempoten", "## Sample"):
        assert part in page, part


@pytest.mark.acceptance("box-8")
def test_the_workflow_runs_the_contract_test_on_request_and_keeps_artifacts() -> None:
    workflow = (ROOT / ".github" / "workflows" / "webhook_contract_tests.yml").read_text(encoding="utf-8")
    for part in (
        "workflow_dispatch",
        "run-webhook-contracts",
        "make contract",
        "upload-artifact",
        "contract-artifacts",
    ):
        assert part in workflow, part


def test_every_deliverable_and_every_flag_of_the_seed_has_its_place() -> None:
    page = (ROOT / "docs" / "webhook-worker.md").read_text(encoding="utf-8")
    for path in (
        "migrations/00013_webhook_processing_helpers.sql",
        "src/workers/webhook_processor_pseudocode.md",
        "src/workers/webhook_processor_stub.js",
        "tools/webhook_replay.sh",
        "docs/integrations/stripe.md",
        "test/contract/webhook_contract_test.js",
        ".github/workflows/webhook_contract_tests.yml",
        "docs/ops/webhook_runbook.md",
        "metrics/definitions.md",
        "--webhook-id",
        "--event-id",
        "--limit",
        "--dry-run",
    ):
        assert path in page, path
