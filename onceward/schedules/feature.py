"""What the package contributes: functions that run by cron expression or interval."""

from __future__ import annotations

from pathlib import Path

from onceward.feature import SCHEDULER, Feature, Part

FEATURE = Feature(
    name="schedules",
    after=("work", "messages"),
    migrations=Path(__file__).parent / "migrations",
    growth="onceward.schedules.growth:GROWTH",
    functions=Path(__file__).parent / "functions",
    parts=(
        Part("scheduler", "onceward.schedules.parts:scheduler", roles=SCHEDULER),
        Part("overdue schedules", "onceward.schedules.parts:overdue_schedules"),
    ),
    commands=("onceward.schedules.commands:register",),
    routes="onceward.schedules.routes:routers",
    pages="onceward.schedules.pages:PAGES",
    configuration="onceward.schedules.configuration:SECTIONS",
    checks="onceward.schedules.checks:CHECKS",
    erasers="onceward.schedules.erasers:ERASERS",
    metrics="onceward.schedules.metrics",
    alerts=Path(__file__).parent / "alerts.yml",
)
