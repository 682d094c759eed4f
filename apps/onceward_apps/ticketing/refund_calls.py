"""Refunds at the payment services: their states in one vocabulary, and the calls that create and read them.

| here      | Stripe                   | PayPal            |
|-----------|--------------------------|-------------------|
| pending   | pending, requires_action | PENDING           |
| succeeded | succeeded                | COMPLETED         |
| failed    | failed, canceled         | FAILED, CANCELLED |

Only `succeeded` means that the buyer has the money. At Stripe a refund to a card may still fail afterwards.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal
from uuid import UUID

from onceward.integrations.paypal import to_minor
from onceward.integrations.stripe import from_stripe, to_stripe
from onceward.services import Accepted, ServiceAnswer
from onceward_apps.ticketing.app import app

State = Literal["pending", "succeeded", "failed"]
STATES: dict[str, State] = {
    "pending": "pending",
    "requires_action": "pending",
    "succeeded": "succeeded",
    "failed": "failed",
    "canceled": "failed",
    "PENDING": "pending",
    "COMPLETED": "succeeded",
    "FAILED": "failed",
    "CANCELLED": "failed",
}
KEY_METADATA = "onceward_key"


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempt of our refund. Its key is the idempotency key of the call, and the service stores it with the refund."""

    refund_id: UUID
    number: int

    @property
    def key(self) -> str:
        return f"refund:{self.refund_id}" + (f":{self.number}" if self.number > 1 else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceRefund:
    """One refund at a payment service. `attempt` is None if somebody made the refund there."""

    provider: str
    payment: str
    id: str
    amount_cents: int
    status: str
    attempt: Attempt | None = None
    failure: str | None = None

    @property
    def state(self) -> State:
        """The state in our vocabulary. An unknown status counts as pending, so that we ask again."""
        return STATES.get(self.status, "pending")


def read_key(text: object) -> Attempt | None:
    """Return the attempt that one of our keys names; None for any other text."""
    parts = text.split(":") if isinstance(text, str) else []
    if len(parts) not in (2, 3) or parts[0] != "refund":
        return None
    try:
        return Attempt(UUID(parts[1]), int(parts[2]) if len(parts) == 3 else 1)
    except ValueError:
        return None


def read_stripe(payment: str, refund: Mapping[str, Any]) -> ServiceRefund:
    return ServiceRefund(
        provider="stripe",
        payment=payment,
        id=str(refund["id"]),
        amount_cents=from_stripe(int(refund["amount"]), str(refund["currency"])),
        status=str(refund.get("status") or "pending"),
        attempt=read_key((refund.get("metadata") or {}).get(KEY_METADATA)),
        failure=refund.get("failure_reason"),
    )


def read_paypal(payment: str, refund: Mapping[str, Any]) -> ServiceRefund:
    amount = refund["amount"]
    return ServiceRefund(
        provider="paypal",
        payment=payment,
        id=str(refund["id"]),
        amount_cents=to_minor(amount["value"], str(amount["currency_code"]).upper()),
        status=str(refund.get("status") or "PENDING"),
        attempt=read_key(refund.get("custom_id")),
        failure=(refund.get("status_details") or {}).get("reason"),
    )


def read(provider: str, payment: str, refund: Mapping[str, Any]) -> ServiceRefund:
    return read_stripe(payment, refund) if provider == "stripe" else read_paypal(payment, refund)


async def create(organization: UUID | None, provider: str, payment: str, attempt: Attempt, *, amount_cents: int,
                 currency: str, age_s: float, checkout_id: UUID | None) -> ServiceAnswer | None:  # fmt: skip
    """Request a refund from the service; None if the service is unknown. The idempotency key prevents a second refund."""
    match provider:
        case "stripe":
            stripe = await app.services.stripe(organization)
            return await stripe.create_refund(
                key=attempt.key,
                amount_minor=to_stripe(amount_cents, currency),
                metadata={"refund_id": str(attempt.refund_id), "checkout_id": str(checkout_id)},
                key_age_s=age_s,
                **_named(payment),
            )
        case "paypal":
            paypal = await app.services.paypal(organization)
            return await paypal.refund_capture(payment, key=attempt.key, amount_minor=amount_cents, currency=currency)
        case _:
            return None


async def look_up(
    organization: UUID | None, provider: str, payment: str, reference: str
) -> ServiceRefund | ServiceAnswer:
    """Return one refund in its present state, or the outcome of a failed call."""
    if provider == "stripe":
        outcome = await (await app.services.stripe(organization)).retrieve_refund(reference)
    else:
        outcome = await (await app.services.paypal(organization)).get_refund(reference)
    return read(provider, payment, outcome.detail) if isinstance(outcome, Accepted) else outcome


async def list_all(organization: UUID | None, provider: str, payment: str) -> list[ServiceRefund] | ServiceAnswer:
    """Return all refunds of a payment in their present state, oldest first, or the outcome of a failed call."""
    if provider == "stripe":
        outcome = await (await app.services.stripe(organization)).list_refunds(**_named(payment))
    else:
        outcome = await (await app.services.paypal(organization)).list_refunds(payment)
    if not isinstance(outcome, Accepted):
        return outcome
    return [read(provider, payment, refund) for refund in reversed(outcome.detail["refunds"])]


def _named(payment: str) -> dict[str, str]:
    return {"payment_intent": payment} if payment.startswith("pi_") else {"charge": payment}
