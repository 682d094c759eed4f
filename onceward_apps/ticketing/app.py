"""The app object of ticketing, with its settings, outbound event types and topics."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from uuid import UUID

from pydantic import BaseModel, Field

from onceward import FeatureSettings, Onceward

HERE = Path(__file__).parent


class TicketingSettings(FeatureSettings):
    """Settings with the prefix `ONCEWARD_TICKETING_`."""

    holds_per_minute: int = Field(
        60, ge=0, description="Seats that one client address may hold per minute in one event; 0 means no limit."
    )


app = Onceward(
    "ticketing",
    migrations=HERE / "migrations",
    functions=HERE / "functions",
    settings=TicketingSettings,
    commands=("onceward_apps.ticketing.commands:register",),
    pages="onceward_apps.ticketing.dashboard:PAGES",
    checks="onceward_apps.ticketing.checks:CHECKS",
    erasers="onceward_apps.ticketing.erasers:ERASERS",
    metrics="onceward_apps.ticketing.metrics",
    alerts=HERE / "alerts.yml",
)
app.templates(HERE / "templates")


class CheckoutCompleted(BaseModel):
    """`checkout.completed`: seats were sold."""

    checkout_id: UUID
    user_id: str | None
    event_id: UUID
    organization_id: UUID
    total_cents: int
    currency: str
    seat_count: int
    ticket_ids: list[UUID]
    payment_reference: str
    timestamp: datetime


class CheckoutRefunded(BaseModel):
    """`checkout.refunded`: an order or some of its tickets were refunded."""

    checkout_id: UUID
    event_id: UUID
    organization_id: UUID
    refund_id: UUID
    amount_cents: int
    currency: str
    ticket_ids: list[UUID]
    is_full_refund: bool
    reason: str
    timestamp: datetime


class CheckoutRefundFailed(BaseModel):
    """`checkout.refund_failed`: the bank returned a refund; the buyer does not have the money."""

    checkout_id: UUID
    event_id: UUID
    organization_id: UUID
    refund_id: UUID
    amount_cents: int
    currency: str
    timestamp: datetime


class TicketScanned(BaseModel):
    """`ticket.scanned`: a ticket was used to enter."""

    ticket_id: UUID
    event_id: UUID
    organization_id: UUID
    gate: str
    scanned_at: datetime


class EventCancelled(BaseModel):
    """`event.cancelled`: an event was cancelled; its orders are being refunded."""

    event_id: UUID
    organization_id: UUID
    name: str
    reason: str
    timestamp: datetime


app.event_type("checkout.completed", CheckoutCompleted, description="A checkout was paid and its tickets were issued.")
app.event_type("checkout.refunded", CheckoutRefunded, description="A checkout was refunded, in full or in part.")
app.event_type(
    "checkout.refund_failed",
    CheckoutRefundFailed,
    description="The bank returned a refund; the buyer does not have the money.",
)
app.event_type("event.cancelled", EventCancelled, description="An event was cancelled; its orders are being refunded.")
app.event_type("ticket.scanned", TicketScanned, description="A ticket was used to enter.")
app.topic("occupancy/{org}/{event_id}", allow="viewer", replay=1)
