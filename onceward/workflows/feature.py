"""The workflows feature: recorded steps, compensations, signals."""

from __future__ import annotations

from pathlib import Path

from onceward.feature import WORKER, Feature, Part, Traced, unique_key

FEATURE = Feature(
    name="workflows",
    after=("work",),
    migrations=Path(__file__).parent / "migrations",
    growth="onceward.workflows.growth:GROWTH",
    functions=Path(__file__).parent / "functions",
    move_back="onceward.move_back_workflows",
    parts=(Part("workflow upkeep", "onceward.workflows.parts:upkeep", roles=WORKER),),
    commands=("onceward.workflows.commands:register",),
    routes="onceward.workflows.routes:routers",
    pages="onceward.workflows.pages:PAGES",
    sqlstates="onceward.workflows.sqlstates:SQLSTATES",
    checks="onceward.workflows.checks:CHECKS",
    erasers="onceward.workflows.erasers:ERASERS",
    traced=(
        Traced(
            "onceward.workflows",
            "workflow",
            label="r.name",
            at="r.created_at",
            state="r.state",
            names=(unique_key(),),
        ),
    ),
)
