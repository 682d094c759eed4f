"""The numbers, the coming events and the chart on the home page of the desk."""

from __future__ import annotations

from onceward.desk import Chart, DeskFigure
from onceward_apps.ticketing.desk.lists import EVENTS, desk

OWN = "($1::uuid is null or organization_id = $1)"
"""Row-level security hides the rows of other organizers but uses no index, so statements name the organizer."""
SOLD = f"select coalesce(sum(seats), 0) from ticketing.sales_funnel where {OWN} and day > onceward.now()::date - 30"
desk.figure(DeskFigure(title="Tickets sold", sql=SOLD, listing="orders", query="status=completed", note="in 30 days"))
desk.figure(
    DeskFigure(
        title="Events on sale",
        sql=f"select count(*) from ticketing.events where {OWN} and status = 'on_sale'",
        listing="events",
        query="status=on_sale",
    )
)
desk.figure(
    DeskFigure(
        title="Payments that failed",
        sql=f"select count(*) from ticketing.checkouts where {OWN} and status = 'failed'"
        " and started_at > onceward.now() - interval '1 day'",
        listing="orders",
        query="status=failed",
        note="in 24 hours",
        warn_above=0,
    )
)
desk.figure(
    DeskFigure(
        title="Let in wrongly",
        sql=f"select count(*) from ticketing.scans where {OWN} and let_in and outcome not in ('admitted', 'readmitted')"
        " and scanned_at > onceward.now() - interval '7 days'",
        listing="entries",
        query="report=wrong",
        note="without a network, in 7 days",
        warn_above=0,
    )
)
desk.figure(
    DeskFigure(
        title="Bank transfers to assign",
        sql=f"select count(*) from ticketing.transfers where {OWN} and outcome = 'unmatched'",
        listing="transfers",
        query="outcome=unmatched",
        warn_above=0,
    )
)
desk.shortlist(EVENTS, "Coming events", "starts_at=next&sort=starts_at")
desk.chart(
    Chart(
        name="sales",
        title="Tickets sold",
        sql=(
            "select day as at, sum(seats) as value from ticketing.sales_funnel where day >= $1 and ($2::uuid is null"
            " or organization_id = $2) group by 1"
        ),
        roles=("manager",),
        empty="No ticket was sold in the last 30 days.",
    )
)
