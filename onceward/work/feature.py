"""The feature `work`: jobs, queues, workers and dead letters."""

from __future__ import annotations

from pathlib import Path

from onceward.feature import NOBODY, OWNERS, WORKER, AlsoKnownAs, Feature, Part, Traced

FEATURE = Feature(
    name="work",
    after=("trust",),
    migrations=Path(__file__).parent / "migrations",
    growth="onceward.work.growth:GROWTH",
    functions=Path(__file__).parent / "functions",
    settings="onceward.work.settings:WorkSettings",
    move_back="onceward.move_back_work",
    parts=(
        Part("default attempts", "onceward.work.parts:default_attempts"),
        Part("queue gauges", "onceward.work.parts:queue_gauges"),
        Part("stranded work", "onceward.work.parts:stranded_work"),
        Part("external jobs", "onceward.work.parts:external_jobs"),
        Part("worker", "onceward.work.parts:worker", roles=WORKER, stage="worker"),
    ),
    commands=("onceward.work.commands:register",),
    routes="onceward.work.routes:routers",
    pages="onceward.work.pages:PAGES",
    configuration="onceward.work.configuration:SECTIONS",
    checks="onceward.work.checks:CHECKS",
    erasers="onceward.work.erasers:ERASERS",
    traced=(
        Traced(
            "onceward.jobs",
            "job",
            label="r.task",
            at="r.created_at",
            names=(
                AlsoKnownAs(
                    "r.id = any(array(select w.id from onceward.work w where w.unique_key = $1"
                    f" and w.dead_reason is null and coalesce(w.organization_id, {NOBODY}) = any({OWNERS})))"
                ),
            ),
        ),
    ),
    metrics="onceward.work.metrics",
    alerts=Path(__file__).parent / "alerts.yml",
    sqlstates="onceward.work.sqlstates:SQLSTATES",
)
