"""The app object of ticketing, with its settings, outbound event types and topics."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from uuid import UUID

from pydantic import BaseModel, Field, SecretStr

from onceward import FeatureSettings, Onceward, SealedColumn
from onceward.payments import Books

HERE = Path(__file__).parent
CHECKOUT = "checkout"
"""What a payment is for: its subject is a checkout."""
ACCOUNTS = {"stripe": "tickets-stripe", "paypal": "tickets-paypal", "by_hand": "tickets-office"}
"""The names of the payment accounts by service. An organization without an account of this name uses the
installation's."""


class TicketingSettings(FeatureSettings):
    """Settings with the prefix `ONCEWARD_TICKETING_`."""

    holds_per_minute: int = Field(
        default=60,
        ge=0,
        description="Seats that one client address may hold per minute in one event; 0 means no limit.",
    )
    fee_bps: int = Field(
        default=250,
        ge=0,
        le=10_000,
        description="The platform's fee of a sale in basis points, for organizations without a fee of their own.",
    )
    apple_pass_pem: SecretStr | None = Field(
        default=None,
        description="For Apple Wallet: private key and certificate of the pass type, and Apple's intermediate"
        " certificate, one after the other in PEM form.",
    )
    google_wallet_issuer: str | None = Field(
        default=None, pattern=r"^\d{1,30}$", description="For Google Wallet: the issuer id."
    )
    google_wallet_key: SecretStr | None = Field(
        default=None, description="For Google Wallet: the key file (JSON) of the service account that signs passes."
    )


SIGNING_KEY = SealedColumn("ticketing.signing_keys", "organization_id", "key")

app = Onceward(
    "ticketing",
    migrations=HERE / "migrations",
    functions=HERE / "functions",
    settings=TicketingSettings,
    commands=("onceward_apps.ticketing.commands:register",),
    pages="onceward_apps.ticketing.desk:PAGES",
    checks="onceward_apps.ticketing.checks:CHECKS",
    erasers="onceward_apps.ticketing.erasers:ERASERS",
    metrics="onceward_apps.ticketing.metrics",
    growth="onceward_apps.ticketing.growth:GROWTH",
    alerts=HERE / "alerts.yml",
    sealed=(SIGNING_KEY,),
)
app.templates(HERE / "templates")
app.payments.books(Books(kinds={"event_revenue:": "revenue"}))
for service, account in ACCOUNTS.items():
    app.payments.account(account, service=service, source=f"payments-{service}")


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


class TicketScanUndone(BaseModel):
    """`ticket.scan_undone`: a scan at the door was taken back."""

    ticket_id: UUID
    event_id: UUID
    organization_id: UUID
    scan_id: UUID
    outcome: str


class EventCancelled(BaseModel):
    """`event.cancelled`: an event was cancelled; its orders are being refunded."""

    event_id: UUID
    organization_id: UUID
    name: str
    reason: str
    timestamp: datetime


class EventMoved(BaseModel):
    """`event.moved`: an event has another date. Its tickets stay valid."""

    event_id: UUID
    organization_id: UUID
    name: str
    moved_from: datetime
    starts_at: datetime
    ends_at: datetime
    reason: str


ORGANIZATION = "0198c0de-0000-7000-8000-000000000001"
EVENT = "0198c0de-0000-7000-8000-000000000002"
ORDER = "0198c0de-0000-7000-8000-000000000003"
TICKETS = ["0198c0de-0000-7000-8000-000000000004", "0198c0de-0000-7000-8000-000000000005"]
REFUND = "0198c0de-0000-7000-8000-000000000006"
SOLD_AT = "2031-06-21T18:30:00Z"

app.event_type(
    "checkout.completed",
    CheckoutCompleted,
    description="A checkout was paid and its tickets were issued.",
    sample={
        "checkout_id": ORDER,
        "user_id": None,
        "event_id": EVENT,
        "organization_id": ORGANIZATION,
        "total_cents": 51250,
        "currency": "EUR",
        "seat_count": 2,
        "ticket_ids": TICKETS,
        "payment_reference": "evt_1Q2w3E4r5T6y",
        "timestamp": SOLD_AT,
    },
)
app.event_type(
    "checkout.refunded",
    CheckoutRefunded,
    description="A checkout was refunded, in full or in part.",
    sample={
        "checkout_id": ORDER,
        "event_id": EVENT,
        "organization_id": ORGANIZATION,
        "refund_id": REFUND,
        "amount_cents": 25625,
        "currency": "EUR",
        "ticket_ids": TICKETS[:1],
        "is_full_refund": False,
        "reason": "requested_by_customer",
        "timestamp": SOLD_AT,
    },
)
app.event_type(
    "checkout.refund_failed",
    CheckoutRefundFailed,
    description="The bank returned a refund; the buyer does not have the money.",
    sample={
        "checkout_id": ORDER,
        "event_id": EVENT,
        "organization_id": ORGANIZATION,
        "refund_id": REFUND,
        "amount_cents": 25625,
        "currency": "EUR",
        "timestamp": SOLD_AT,
    },
)
app.event_type(
    "event.cancelled",
    EventCancelled,
    description="An event was cancelled; its orders are being refunded.",
    sample={
        "event_id": EVENT,
        "organization_id": ORGANIZATION,
        "name": "Midsummer Night",
        "reason": "The stage was flooded.",
        "timestamp": SOLD_AT,
    },
)
app.event_type(
    "event.moved",
    EventMoved,
    description="An event has another date; its tickets stay valid.",
    sample={
        "event_id": EVENT,
        "organization_id": ORGANIZATION,
        "name": "Midsummer Night",
        "moved_from": SOLD_AT,
        "starts_at": "2031-09-12T18:00:00Z",
        "ends_at": "2031-09-12T21:00:00Z",
        "reason": "The stage was flooded.",
    },
)
app.event_type(
    "ticket.scanned",
    TicketScanned,
    description="A ticket was used to enter.",
    sample={
        "ticket_id": TICKETS[0],
        "event_id": EVENT,
        "organization_id": ORGANIZATION,
        "gate": "North",
        "scanned_at": SOLD_AT,
    },
)
app.event_type(
    "ticket.scan_undone",
    TicketScanUndone,
    description="A scan at the door was taken back.",
    sample={
        "ticket_id": TICKETS[0],
        "event_id": EVENT,
        "organization_id": ORGANIZATION,
        "scan_id": ORDER,
        "outcome": "admitted",
    },
)
app.topic("occupancy/{org}/{event_id}", allow="viewer", replay=1)
