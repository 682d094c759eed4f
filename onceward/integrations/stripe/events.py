"""The objects of the most used Stripe events.

Hand-kept after the published API reference, and compared with the objects in stripe/openapi `openapi/fixtures3.json`
(of 2026-08-21), not with a live account: each field is there, and what is required here is not null there. Only fields
that most handlers use; `event.payload` has all of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pydantic import Field

from onceward.webhooks.models import Payload

VERSION: Final = "2025-03-31.basil"
"""The version of Stripe's API that the models describe."""


class BillingDetails(Payload):
    """Who pays."""

    email: str | None = None
    name: str | None = None
    phone: str | None = None


class Charge(Payload):
    """`charge.succeeded`, `charge.failed`, `charge.refunded`. Amounts are in the smallest unit of the currency."""

    id: str
    amount: int
    amount_captured: int
    amount_refunded: int
    currency: str
    status: str
    paid: bool
    refunded: bool
    created: int
    payment_intent: str | None = None
    customer: str | None = None
    balance_transaction: str | None = None
    billing_details: BillingDetails = BillingDetails()
    failure_code: str | None = None
    failure_message: str | None = None
    metadata: dict[str, str] = Field(default_factory=dict[str, str])


class PaymentIntent(Payload):
    """`payment_intent.succeeded`, `payment_intent.payment_failed`."""

    id: str
    amount: int
    currency: str
    status: str
    created: int
    amount_received: int = 0
    latest_charge: str | None = None
    customer: str | None = None
    metadata: dict[str, str] = Field(default_factory=dict[str, str])


class CheckoutSession(Payload):
    """`checkout.session.completed`, `checkout.session.expired`."""

    id: str
    mode: str
    created: int
    payment_status: str
    status: str | None = None
    amount_total: int | None = None
    currency: str | None = None
    client_reference_id: str | None = None
    customer: str | None = None
    payment_intent: str | None = None
    subscription: str | None = None
    metadata: dict[str, str] | None = None


class Subscription(Payload):
    """`customer.subscription.created`, `.updated`, `.deleted`."""

    id: str
    customer: str
    status: str
    currency: str
    created: int
    cancel_at_period_end: bool
    canceled_at: int | None = None
    ended_at: int | None = None
    metadata: dict[str, str] = Field(default_factory=dict[str, str])


class Invoice(Payload):
    """`invoice.payment_succeeded`, `invoice.payment_failed`."""

    id: str
    currency: str
    amount_due: int
    amount_paid: int
    created: int
    status: str | None = None
    customer: str | None = None
    customer_email: str | None = None
    attempt_count: int = 0
    billing_reason: str | None = None
    metadata: dict[str, str] | None = None


class Refund(Payload):
    """`refund.created`."""

    id: str
    amount: int
    currency: str
    created: int
    status: str | None = None
    charge: str | None = None
    payment_intent: str | None = None
    reason: str | None = None
    metadata: dict[str, str] | None = None


MODELS: Final[Mapping[str, type[Payload]]] = {
    "charge.failed": Charge,
    "charge.refunded": Charge,
    "charge.succeeded": Charge,
    "checkout.session.completed": CheckoutSession,
    "checkout.session.expired": CheckoutSession,
    "customer.subscription.created": Subscription,
    "customer.subscription.deleted": Subscription,
    "customer.subscription.updated": Subscription,
    "invoice.payment_failed": Invoice,
    "invoice.payment_succeeded": Invoice,
    "payment_intent.payment_failed": PaymentIntent,
    "payment_intent.succeeded": PaymentIntent,
    "refund.created": Refund,
}
