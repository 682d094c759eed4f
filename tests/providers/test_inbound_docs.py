"""The pages about integrations say what the code does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from onceward.integration import integrations
from onceward.integrations.generic.webhooks import options_of
from onceward.webhooks.families import FAMILIES
from onceward.webhooks.provider import REASONS, STATUS
from onceward.webhooks.registry import PROVIDERS
from onceward.webhooks.samples import parse_field
from tests.docs.documented_commands import in_page
from tests.providers.conftest import WRITTEN

PAGES = Path(__file__).parents[2] / "docs" / "integrations"
OVERVIEW = (PAGES / "README.md").read_text()


@pytest.mark.parametrize("name", WRITTEN)
def test_every_provider_has_a_page_with_its_options_and_a_sample(name: str) -> None:
    page = (PAGES / f"{name}.md").read_text()
    for part in ("## Set it up", "## Which event", "## Sample", "## Try it"):
        assert part in page
    provider = PROVIDERS[name]
    models = [options_of(family) for family in FAMILIES] if name == "generic" else [provider.options_model]
    options = {option for model in models for option in model.model_fields}
    assert all(f"`{option}`" in page for option in options)
    assert options or "There are no options." in page
    assert f"[`{name}`]({name}.md)" in OVERVIEW


def test_every_integration_has_a_contract_page_and_every_sender_two_samples() -> None:
    for name in integrations():
        folder = integrations().folder_of(name)
        assert (folder / "README.md").exists() != (name in integrations().senders), name
        assert f"({name}.md)" in OVERVIEW, name
        assert (name in PROVIDERS) == ((folder / "samples").exists()), name
    few = [provider for provider in PROVIDERS.values() if len(provider.sample_types) < 2]
    assert [provider.name for provider in few if provider.events.type] == [], "only a sender of one type has one sample"


@pytest.mark.parametrize("name", WRITTEN)
def test_every_command_on_a_page_gives_a_sample_with_its_fields(name: str) -> None:
    every = [command.words for command in in_page((PAGES / f"{name}.md").read_text(), name)]
    commands = [words[1:] for words in every if words[0] == "trigger"]
    assert commands
    for provider, kind, *options in commands:
        assert provider == name
        fields = dict(parse_field(value) for value in options if value != "-f")
        sample = PROVIDERS[name].sample(kind, fields)
        assert {path: value_at(sample, path) for path in fields} == fields


def value_at(document: Any, path: str) -> Any:
    for key in path.split("."):
        document = document[int(key) if isinstance(document, list) else key]
    return document


def test_the_overview_lists_who_retries_and_every_reason_with_its_status() -> None:
    for reason in REASONS:
        assert f"| `{reason}` | {STATUS.get(reason, 401)} |" in OVERVIEW
    for name, provider in PROVIDERS.items():
        row = next(line for line in OVERVIEW.splitlines() if line.startswith(f"| [`{name}`]"))
        expected = "by option" if name in ("generic", "none") else "yes" if provider.retries else "no"
        assert row.endswith(f"| {expected} |")
