"""Metrics of payments. `observe` reads them from the tables, with a bounded cost."""

from __future__ import annotations

from onceward.db import Database
from onceward.statements import read_statement
from onceward.telemetry.metrics import gauge

LABELS = ("service", "state")
PAYMENTS = gauge("onceward_payments_open", "Unfinished payments by state: created, open, processing.", LABELS)
PAYMENTS_OLDEST = gauge("onceward_payments_oldest_open_seconds", "Age of the oldest unfinished payment.", LABELS)
REFUNDS = gauge(
    "onceward_refunds_open",
    "Refunds that the buyer does not have yet, by state: requested, sent, pending; failed waits for an operator.",
    LABELS,
)
REFUNDS_OLDEST = gauge(
    "onceward_refunds_oldest_open_seconds", "Age of the oldest refund that the buyer does not have yet.", LABELS
)
NOT_CLOSED = gauge(
    "onceward_payments_not_closed",
    "Payments whose time ended an hour ago and that are neither paid nor ended: the service does not answer, or "
    "`on_paid` raises.",
)
DIFFERENCES = gauge(
    "onceward_payment_differences", "Differences that `payments check` found and that are not resolved."
)

MEASURE = read_statement("payments", "measure_open")
COUNT_NOT_CLOSED = """
select count(*) from (select from onceward.payments
 where close_at < onceward.now() - interval '1 hour' and closed_at is null and status in ('created', 'open')
 limit 10000) p
"""
COUNT_DIFFERENCES = """
select count(*) from (select from onceward.payment_differences where resolved_at is null limit 10000) d
"""
SERVICES = "select distinct service from onceward.payment_accounts"
KINDS = {
    "payment": (PAYMENTS, PAYMENTS_OLDEST, ("created", "open", "processing")),
    "refund": (REFUNDS, REFUNDS_OLDEST, ("requested", "sent", "pending", "failed")),
}


async def observe(db: Database) -> int:
    """Set the gauges, and return how many payments and refunds are unfinished."""
    async with db.transaction(role="engine") as tx:
        rows = {(row["kind"], row["service"], row["status"]): row for row in await tx.fetch(MEASURE)}
        services = [row["service"] for row in await tx.fetch(SERVICES)]
        NOT_CLOSED.set(await tx.fetchval(COUNT_NOT_CLOSED))
        DIFFERENCES.set(await tx.fetchval(COUNT_DIFFERENCES))
    for kind, (count, oldest, states) in KINDS.items():
        for service in services:
            for state in states:
                row = rows.get((kind, service, state))
                count.labels(service, state).set(0 if row is None else row["count"])
                oldest.labels(service, state).set(0 if row is None else row["oldest_s"])
    return sum(row["count"] for row in rows.values())
