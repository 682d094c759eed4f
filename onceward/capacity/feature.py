"""The capacity feature: pools of places that cannot be oversold."""

from __future__ import annotations

from pathlib import Path

from onceward.feature import WORKER, Feature, Part, Traced

FEATURE = Feature(
    name="capacity",
    after=("work",),
    migrations=Path(__file__).parent / "migrations",
    growth="onceward.capacity.growth:GROWTH",
    functions=Path(__file__).parent / "functions",
    parts=(Part("expired holds", "onceward.capacity.parts:expired_holds", roles=WORKER),),
    checks="onceward.capacity.checks:CHECKS",
    erasers="onceward.capacity.erasers:ERASERS",
    traced=(Traced("onceward.capacity_claims", "claim", label="r.holder", at="r.claimed_at", state="r.state"),),
    sqlstates="onceward.capacity.sqlstates:SQLSTATES",
)
