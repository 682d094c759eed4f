"""A module is a noun that a reader expects to find: `reconciliation`, not `asking`."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parents[2]
NOUNS = {
    *("batching", "booking", "commit_sharing", "encoding", "enqueuing", "finding", "key_ring", "listing", "paging"),
    *("polling", "publishing", "rendering", "routing", "signing", "simulator_billing", "streaming", "tracing"),
}
"""Words in -ing that name a thing of the field. Add one only if the field says it so."""


def test_modules_have_nouns_as_names() -> None:
    modules = [path for folder in ("onceward", "apps") for path in sorted((ROOT / folder).rglob("*ing.py"))]
    assert len(modules) > 10
    verbs = [path.relative_to(ROOT).as_posix() for path in modules if path.stem not in NOUNS]
    assert not verbs, f"name the thing, not what it does: {verbs}"
