"""Erase what schedules store about a person: keys of items, results, errors, the operator who requested a run."""

from __future__ import annotations

from onceward.trust.erase import INSTANCE, Eraser

ERASERS: tuple[Eraser, ...] = (
    Eraser(
        name="runs",
        table="onceward.runs",
        columns={"result": "json", "error": "json", "asked_by": "text", "reason": "text"},
        blank={"result": "null", "error": "null", "asked_by": "'erased'", "reason": "'erased'"},
        scope=INSTANCE,
        waits="t.status in ('pending', 'running')",
    ),
    # An unfinished run needs the keys of its finished items, to skip them.
    Eraser(
        name="items of runs",
        table="onceward.run_items",
        columns={"key": "text", "error": "json"},
        delete=True,
        scope="($1::uuid is null or t.organization_id = $1::uuid)",
        waits="exists (select from onceward.runs r where r.scope = t.scope and r.status in ('pending', 'running'))",
    ),
    Eraser(
        name="paused schedules",
        table="onceward.schedules",
        columns={"paused_by": "text"},
        blank={"paused_by": "'erased'"},
        scope=INSTANCE,
    ),
)

UNSEARCHED: dict[str, str] = {
    "onceward.schedules.severity": "a closed set",
    "onceward.schedules.name": "a name given by code",
    "onceward.schedules.task": "a name given by code",
    "onceward.schedules.queue": "a name given by code",
    "onceward.schedules.cron": "an expression given by code",
    "onceward.schedules.tz": "a time zone",
    "onceward.runs.schedule": "a name given by code",
    "onceward.run_items.step": "a name given by code",
    "onceward.run_parts.*": "counts, under names given by code",
}
