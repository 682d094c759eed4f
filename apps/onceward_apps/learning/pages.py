"""The dashboard page for operators: cohorts with their places and money, refunds that failed, open disputes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from onceward.money import format_amount
from onceward.trust import Identity
from onceward.web import ANYTHING
from onceward.web.dashboard import (
    Action,
    ActionRefused,
    Done,
    Figure,
    Page,
    Pages,
    Reason,
    Section,
    Site,
    Status,
    View,
    many,
    number,
)
from onceward_apps.learning.app import HERE
from onceward_apps.learning.errors import LearningError
from onceward_apps.learning.model import as_uuid
from onceward_apps.learning.refund_requests import retry_refund
from onceward_apps.learning.store import overview

PATH = "/dashboard/learning"


async def load(view: View) -> dict[str, Any]:
    """Return everything that the page shows."""
    if view.organization is None:
        return {"title": "Learning", "choose": True}
    return {
        "title": "Learning",
        "choose": False,
        "counts": await overview.counts(view.conn, view.organization),
        "cohorts": [_cohort(row) for row in await overview.cohorts(view.conn, view.organization)],
        "refunds": [_priced(row) for row in await overview.failed_refunds(view.conn, view.organization)],
        "disputes": [_priced(row) for row in await overview.open_disputes(view.conn, view.organization)],
    }


def _priced(row: Any) -> dict[str, Any]:
    return {**dict(row), "money": format_amount(row["amount"], row["currency"], "en")}


def _cohort(row: Any) -> dict[str, Any]:
    places = row["max_capacity"]
    full = 100 if places == 0 else min(100, round(100 * (row["sold"] + row["held"]) / places))
    return {**dict(row), "percent": full, "money": format_amount(row["revenue"], row["currency"], "en")}


async def status(view: View) -> Status:
    """Return the figures for the overview of the dashboard."""
    counts = await overview.counts(view.conn, view.organization)
    if not any(dict(counts).values()):
        return Status()
    note = f"{number(counts['new'])} in 24 hours"
    figure = Figure("Active enrolments", number(counts["active"]), PATH, note, "bad" if counts["failed"] else "")
    reasons: list[Reason] = []
    if counts["failed"]:
        text = f"{many(counts['failed'], 'refund')} failed: students wait for their money"
        reasons.append(Reason("attention", text, PATH))
    if counts["disputes"]:
        text = f"{many(counts['disputes'], 'payment')} disputed: answer at Stripe before the deadline"
        reasons.append(Reason("attention", text, PATH))
    return Status((figure,), tuple(reasons))


async def _retry(site: Site, identity: Identity, form: Mapping[str, str]) -> Done:
    refund_id: UUID | None = as_uuid(form.get("refund"))
    if identity.organization is None or refund_id is None:
        raise ActionRefused("choose an organization, and a refund from the list")
    try:
        async with site.engine.transaction(organization=identity.organization) as tx:
            attempt = await retry_refund(tx, refund_id, actor=identity.actor)
    except LearningError as error:
        raise ActionRefused(str(error)) from None
    return Done(PATH, f"Attempt {attempt} of the refund is on its way.")


PAGES = Pages(
    pages=(Page(name="learning", path=PATH, title="Learning", section="learning", load=load, every_s=2.0),),
    actions=(Action(path=f"{PATH}/retry-refund", causes=ANYTHING, run=_retry),),
    sections=(Section("learning", "Learning", PATH, "y", "learning.cohorts", group="Apps", order=95),),
    status=(status,),
    templates=(HERE / "dashboard",),
)
