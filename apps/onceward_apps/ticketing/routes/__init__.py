"""HTTP: organizers under `/api/v1/ticketing`, buyers under `/api/tickets` and on pages, staff at the door."""

from onceward_apps.ticketing.app import app
from onceward_apps.ticketing.routes import (
    buyers,
    changes,
    door,
    holders,
    orders,
    organizers,
    pages,
    papers,
    refunds,
    waiting,
)

for module in (organizers, changes, refunds, buyers, orders, papers, waiting, holders, door, pages):
    app.routes(module.router)
