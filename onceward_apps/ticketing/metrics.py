"""Metrics of ticketing."""

from __future__ import annotations

from onceward.telemetry.metrics import counter

SALES = counter(
    "ticketing_sales_total",
    "Payments that were to become tickets, by what came of it: sold, or an error (tried again).",
    ("provider", "outcome"),
)
SEAT_CONFLICTS = counter("ticketing_seat_conflicts_total", "Sales that met a seat changed by somebody else.")
REFUSED = counter("ticketing_payments_refused_total", "Payments that bought nothing and were refunded.", ("reason",))
HOLDS_REFUSED = counter("ticketing_holds_refused_total", "Holds that came too fast from one address.")
