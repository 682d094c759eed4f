"""The dashboard page for operators: slots by tier, the adaptive limit and why it moved, costs against the monthly
caps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from onceward.web.dashboard import Figure, Pages, Reason, Status, View, many, number
from onceward_apps.coursegen import model
from onceward_apps.coursegen.app import CoursegenSettings, app, tiers
from onceward_apps.coursegen.store import overview

PATH = "/dashboard/coursegen"
DEFAULT_REASON = "start"


COURSE = {
    "draft": "Draft",
    "queued": "Waits for a slot",
    "generating": "Being written",
    "completed": "Done",
    "failed": "Failed",
    "cancelled": "Cancelled",
}
"""What people read instead of the states of a course."""


async def load(view: View) -> dict[str, Any]:
    """Return everything that the page shows. An administrator of the instance sees all organizations together."""
    slots = tiers().at_most
    # A cap is for one organization, so it says nothing about the sum of all.
    caps = {} if view.everything else model.parse_caps(app.settings(CoursegenSettings).monthly_caps_usd)
    running = {row["tier"]: row for row in await overview.running(view.conn, view.organization)}
    costs = {row["tier"]: row for row in await overview.costs(view.conn, view.organization)}
    names = [*slots, *(name for name in sorted({*running, *costs}) if name not in slots)]
    limit = await overview.global_limit(view.conn)
    return {
        "title": "Course generation",
        "tiers": [_tier(name, slots.get(name), running.get(name), costs.get(name), caps.get(name)) for name in names],
        "limit": limit,
        "limit_percent": min(100, round(100 * limit["held"] / limit["at_most"])),
        "limit_reason": None if limit["reason"] in (None, DEFAULT_REASON) else limit["reason"],
        "limit_changes": await overview.limit_changes(view.conn),
        "states": await overview.states(view.conn, view.organization),
        "failures": await overview.failures(view.conn, view.organization),
        "courses": await overview.recent(view.conn, view.organization),
        "STATES": COURSE,
        "order": ("queued", "generating", "completed", "failed", "cancelled", "draft"),
    }


def _tier(name: str, limit: int | None, running: Any, costs: Any, cap: int | None) -> dict[str, Any]:
    cost = 0 if costs is None else costs["cost_micros"]
    return {
        "name": name,
        "limit": limit,
        "slots": 0 if running is None else running["slots"],
        "generating": 0 if running is None else running["generating"],
        "oldest": None if running is None else running["oldest"],
        "calls": 0 if costs is None else costs["calls"],
        "cost": dollars(cost),
        "cap": None if cap is None else dollars(cap),
        "percent": None if not cap else min(100, round(100 * cost / cap)),
    }


def dollars(micros: int) -> str:
    return f"${micros / model.MICROS:,.{4 if 0 < micros < 100_000 else 2}f}"


async def status(view: View) -> Status:
    """Return the figures for the overview of the dashboard."""
    states = await overview.states(view.conn, view.organization)
    if not states:
        return Status()
    failed = sum(row["courses"] for row in await overview.failures(view.conn, view.organization))
    running = states.get("queued", 0) + states.get("generating", 0)
    note = f"{number(failed)} failed in 24 hours" if failed else f"{number(states.get('completed', 0))} completed"
    figure = Figure("Courses being generated", number(running), PATH, note, "warn" if failed else "")
    reasons: list[Reason] = []
    if failed:
        reasons.append(Reason("attention", f"{many(failed, 'course')} failed in the last 24 hours", PATH))
    return Status((figure,), tuple(reasons))


PAGES = Pages(
    status=(status,),
    templates=(Path(__file__).parent / "dashboard",),
)
