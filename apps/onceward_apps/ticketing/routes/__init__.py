"""HTTP: organizers under `/api/v1/ticketing`, buyers under `/api/tickets` and on pages, staff at the door."""

from onceward_apps.ticketing.app import app
from onceward_apps.ticketing.routes import (
    books,
    box_office,
    buyers,
    changes,
    door,
    holders,
    orders,
    organizers,
    pages,
    papers,
    refunds,
    sale_setup,
    waitlist,
)

for module in (
    organizers,
    books,
    box_office,
    changes,
    sale_setup,
    refunds,
    buyers,
    orders,
    papers,
    waitlist,
    holders,
    door,
    pages,
):
    app.routes(module.router)
