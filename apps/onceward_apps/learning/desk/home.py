"""The home page of the desk: figures, a chart, and what needs attention."""

from __future__ import annotations

from onceward.desk import Chart, DeskFigure
from onceward.web.dashboard import Figure, Reason, Status, View, many, number
from onceward_apps.learning.desk.listings import COHORTS, desk
from onceward_apps.learning.store import overview

OWN = "($1::uuid is null or {}organization_id = $1)"
"""Row-level security hides the rows of other organizations but uses no index, so statements name the organization."""

desk.figure(
    DeskFigure(
        title="Active enrolments",
        sql=f"select count(*) from learning.enrollments where status = 'ACTIVE' and {OWN.format('')}",
        listing="enrolments",
        query="status=ACTIVE",
    )
)
desk.figure(
    DeskFigure(
        title="Failed refunds",
        sql="select count(*) from onceward.payment_refunds r join onceward.payments p on p.id = r.payment_id"
        f" where {overview.FAILED} and {OWN.format('r.')}",
        listing="refunds",
        query="status=failed",
        warn_above=0,
    )
)
desk.figure(
    DeskFigure(
        title="Open disputes",
        sql="select count(*) from onceward.payment_disputes d join onceward.payments p on p.id = d.payment_id"
        f" where d.status in ('inquiry', 'open') and {overview.OURS} and {OWN.format('d.')}",
        listing="disputes",
        query="status=open",
        warn_above=0,
    )
)
desk.shortlist(COHORTS, "Running cohorts", "status=IN_PROGRESS")
desk.shortlist(COHORTS, "Open cohorts", "status=OPEN&sort=starts_at")
desk.chart(
    Chart(
        name="enrolments",
        title="Enrolments",
        sql="select enrolled_at::date as at, count(*) as value from learning.enrollments"
        " where enrolled_at >= $1 and ($2::uuid is null or organization_id = $2) group by 1",
        empty="Nobody has enrolled in the last 30 days.",
    )
)
desk.chart(
    Chart(
        name="payments",
        title="Payments",
        sql="select p.paid_at::date as at, count(*) as value from onceward.payments p"
        f" where {overview.OURS} and p.decision = 'accepted' and p.paid_at >= $1"
        " and p.created_at >= $1 - interval '40 days' and ($2::uuid is null or p.organization_id = $2) group by 1",
        empty="Nobody has paid in the last 30 days.",
        roles=("accountant",),
    )
)


async def status(view: View) -> Status:
    """Return the figures for the overview of the dashboard."""
    counts = await overview.counts(view.conn, view.organization)
    if not any(dict(counts).values()):
        return Status()
    note = f"{number(counts['new'])} in 24 hours"
    figure = Figure("Active enrolments", number(counts["active"]), desk.path, note, "bad" if counts["failed"] else "")
    reasons: list[Reason] = []
    if counts["failed"]:
        text = f"{many(counts['failed'], 'refund')} failed: students wait for their money"
        reasons.append(Reason("attention", text, f"{desk.path}/refunds?status=failed"))
    if counts["disputes"]:
        text = f"{many(counts['disputes'], 'payment')} disputed: answer at Stripe before the deadline"
        reasons.append(Reason("attention", text, f"{desk.path}/disputes"))
    return Status((figure,), tuple(reasons))
