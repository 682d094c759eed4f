"""The ledger feature: double-entry accounts."""

from __future__ import annotations

from pathlib import Path

from onceward.feature import OWNERS, WORKER, AlsoKnownAs, Feature, Part, Traced

FEATURE = Feature(
    name="ledger",
    after=("work",),
    migrations=Path(__file__).parent / "migrations",
    growth="onceward.ledger.growth:GROWTH",
    functions=Path(__file__).parent / "functions",
    parts=(Part("ledger checkpoints", "onceward.ledger.parts:checkpoints", roles=WORKER),),
    commands=("onceward.ledger.commands:register",),
    pages="onceward.ledger.pages:PAGES",
    checks="onceward.ledger.checks:CHECKS",
    erasers="onceward.ledger.erasers:ERASERS",
    traced=(
        Traced(
            "onceward.ledger_journals",
            "journal",
            label="r.kind || ' ' || r.key",
            at="r.created_at",
            state="'recorded'",
            names=(AlsoKnownAs(f"r.organization_id = any({OWNERS}) and r.key = $1"),),
        ),
    ),
    sqlstates="onceward.ledger.sqlstates:SQLSTATES",
)
