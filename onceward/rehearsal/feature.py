"""The feature `rehearsal`: what handlers would do, run in transactions that are always rolled back."""

from __future__ import annotations

from pathlib import Path

from onceward.feature import WEB, Feature, Part

FEATURE = Feature(
    name="rehearsal",
    after=("work", "inbox", "messages", "outbox", "ledger", "capacity", "live"),
    migrations=Path(__file__).parent / "migrations",
    functions=Path(__file__).parent / "functions",
    growth="onceward.rehearsal.growth:GROWTH",
    settings="onceward.rehearsal.settings:RehearsalSettings",
    parts=(Part("previews of rehearsals", "onceward.rehearsal.parts:previews", roles=WEB),),
    commands=("onceward.rehearsal.commands:register",),
    routes="onceward.rehearsal.routes:routers",
    pages="onceward.rehearsal.pages:PAGES",
    sqlstates="onceward.rehearsal.sqlstates:SQLSTATES",
    errors=("onceward.rehearsal.errors:RehearsalError",),
)
