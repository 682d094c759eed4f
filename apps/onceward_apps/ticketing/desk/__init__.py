"""The desk of the ticket shop: what organizers and door staff see and do."""

from onceward.web.dashboard import Figure, Pages, Status, View, number
from onceward_apps.ticketing.desk import (
    books,
    box_office,
    coupons,
    door,
    events,
    figures,
    invoices,
    new_events,
    orders,
    sale_setup,
)
from onceward_apps.ticketing.desk.lists import desk

__all__ = [
    "PAGES",
    "books",
    "box_office",
    "coupons",
    "desk",
    "door",
    "events",
    "figures",
    "invoices",
    "new_events",
    "orders",
    "sale_setup",
]
SOLD = f"select sum(seats) from ticketing.sales_funnel where {figures.OWN} and day >= onceward.now()::date - 1"


async def status(view: View) -> Status:
    """Return the figure for the overview of the dashboard."""
    sold = await view.conn.fetchval(SOLD, view.organization)
    return Status() if not sold else Status((Figure("Tickets sold", number(sold), desk.path, "since yesterday"),))


PAGES = desk.pages + Pages(status=(status,))
