"""Metrics of ticketing."""

from __future__ import annotations

from onceward.telemetry.metrics import counter

SALES = counter(
    "ticketing_sales_total",
    "Payments by outcome: sold, or error (the sale is retried).",
    ("provider", "outcome"),
)
SEAT_CONFLICTS = counter(
    "ticketing_seat_conflicts_total", "Sales that found a seat changed by another transaction and read it again."
)
REFUSED = counter(
    "ticketing_payments_refused_total",
    "Payments that could not be used, by reason.",
    ("reason",),
)
HOLDS_REFUSED = counter("ticketing_holds_refused_total", "Holds refused because one client address exceeded its limit.")
LET_IN_WRONGLY = counter(
    "ticketing_let_in_wrongly_total",
    "Guests whom a device without a network let in although their ticket did not admit, for example because "
    "it was used.",
)
