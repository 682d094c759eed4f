"""The limits feature: admission slots, the adaptive global limit, rate limits."""

from __future__ import annotations

from pathlib import Path

from onceward.feature import WORKER, Feature, Part

FEATURE = Feature(
    name="limits",
    after=("work",),
    migrations=Path(__file__).parent / "migrations",
    growth="onceward.limits.growth:GROWTH",
    functions=Path(__file__).parent / "functions",
    settings="onceward.limits.settings:LimitsSettings",
    move_back="onceward.move_back_limits",
    parts=(
        Part("idle rates", "onceward.limits.parts:idle_rates"),
        Part("adaptive limit", "onceward.limits.parts:adaptive_limit", roles=WORKER),
        Part("limit reconciliation", "onceward.limits.parts:reconciliation", roles=WORKER),
    ),
    commands=("onceward.limits.commands:register",),
    routes="onceward.limits.routes:routers",
    error_handlers="onceward.limits.routes:add_error_handlers",
    erasers="onceward.limits.erasers:ERASERS",
    checks="onceward.limits.checks:CHECKS",
)
