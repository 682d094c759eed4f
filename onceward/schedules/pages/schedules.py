"""Dashboard pages of schedules: next run and recent runs; actions pause, resume and run now."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from onceward.db import Connection
from onceward.schedules import operations
from onceward.statements import read_statement
from onceward.trust.identity import Identity
from onceward.web.dashboard.action import Action, ActionRefused, Done, back
from onceward.web.dashboard.contribution import Figure, Reason, Status
from onceward.web.dashboard.formats import many, number
from onceward.web.dashboard.page import Missing, Page, View
from onceward.web.dashboard.site import Site
from onceward.web.exposure import ANYTHING, NOTHING

RECENT = read_statement("schedules", "recent_runs")
COUNTS = read_statement("schedules", "count_schedules")


async def status(view: View) -> Status:
    """Return the status of schedules for the overview. They belong to the instance, not to an organization."""
    row = await view.conn.fetchrow(COUNTS) if view.everything else None
    if row is None or not row["all"]:
        return Status()
    reasons: list[Reason] = []
    if row["failing"]:
        text = f"{many(row['failing'], 'schedule')} failed in the last run"
        reasons.append(Reason("attention", text, "/dashboard/schedules"))
    if row["late"]:
        reasons.append(
            Reason("attention", f"{many(row['late'], 'schedule')} did not run on time", "/dashboard/schedules")
        )
    note = f"{number(row['failing'])} failed in the last run" if row["failing"] else f"{number(row['paused'])} paused"
    figure = Figure("Schedules", number(row["all"]), "/dashboard/schedules", note, "warn" if row["failing"] else "")
    return Status((figure,), tuple(reasons))


async def load(view: View) -> dict[str, Any]:
    recent: dict[str, list[Any]] = {}
    for row in await view.conn.fetch(RECENT):
        recent.setdefault(row["schedule"], []).append(row)
    schedules = await operations.overview(cast(Connection, view.conn))
    return {"title": "Schedules", "schedules": schedules, "recent": recent, "known": view.site.app.schedules}


async def load_one(view: View) -> dict[str, Any]:
    name = view.text("name")
    rows = [each for each in await operations.overview(cast(Connection, view.conn)) if each["name"] == name]
    if not rows:
        raise Missing(f"there is no schedule {name}")
    return {
        "title": f"Schedule {name}",
        "crumbs": ("Schedules", "/dashboard/schedules"),
        "schedule": rows[0],
        "runs": await operations.history(cast(Connection, view.conn), name, limit=30),
        "known": name in view.site.app.schedules,
    }


async def _pause(site: Site, identity: Identity, form: Mapping[str, str]) -> Done:
    async with site.database.transaction(role="engine") as tx:
        changed = await operations.pause(tx, _name(form), by=identity.actor)
    return Done(
        back(form, "/dashboard/schedules"), _result(changed, form, "is paused; it gets no new runs until you resume it")
    )


async def _resume(site: Site, identity: Identity, form: Mapping[str, str]) -> Done:
    async with site.database.transaction(role="engine") as tx:
        changed = await operations.resume(tx, _name(form), by=identity.actor)
    return Done(back(form, "/dashboard/schedules"), _result(changed, form, "is resumed"))


async def _run(site: Site, identity: Identity, form: Mapping[str, str]) -> Done:
    schedule = site.app.schedules.get(_name(form))
    if schedule is None:
        raise ActionRefused(f"this node has no schedule {_name(form)}: run it on a node that loads its app")
    async with site.database.transaction(role="engine") as tx:
        id = await operations.run_now(tx, schedule, by=identity.actor, waker=site.engine.waker)
    return Done(f"/dashboard/schedules/{schedule.name}", f"Run {id} is queued.")


def _name(form: Mapping[str, str]) -> str:
    return form.get("schedule", "")[:200]


def _result(changed: bool, form: Mapping[str, str], text: str) -> str:
    return f"Schedule {_name(form)} {text}." if changed else f"Nothing to change about schedule {_name(form)}."


PAGES = (
    Page(
        name="schedules",
        path="/dashboard/schedules",
        title="Schedules",
        section="schedules",
        load=load,
        scope="admin",
        instance=True,
    ),
    Page(
        name="schedule",
        path="/dashboard/schedules/{name}",
        title="Schedule",
        section="schedules",
        load=load_one,
        scope="admin",
        instance=True,
    ),
)
ACTIONS = tuple(
    Action(path=f"/dashboard/schedules/{verb}", causes=causes, run=run, scope="admin", instance=True)
    for verb, run, causes in (
        ("pause", _pause, NOTHING),
        ("resume", _resume, ANYTHING),
        ("run", _run, ANYTHING),
    )
)
