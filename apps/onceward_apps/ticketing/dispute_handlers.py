"""Handlers of webhooks about disputes and reversals of both payment services; `disputes` applies them."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, Field

from onceward import Event, Tx
from onceward.integrations.paypal import to_minor
from onceward.integrations.stripe import from_stripe
from onceward_apps.ticketing import disputes
from onceward_apps.ticketing.app import app
from onceward_apps.ticketing.disputes import ServiceDispute, State
from onceward_apps.ticketing.handlers import OTHER, CaptureRefund, Money
from onceward_apps.ticketing.refund_handlers import act_for_payment

# All other states are open. A closed inquiry (`warning_*`) took no money.
STRIPE_STATES: dict[str, State] = {"won": "won", "warning_closed": "won", "prevented": "won", "lost": "lost"}
PAYPAL_LOST = ("RESOLVED_BUYER_FAVOUR", "ACCEPTED")
PAYPAL_HOLDS = ("CHARGEBACK", "PRE_ARBITRATION", "ARBITRATION")
"""Stages in which PayPal withholds the money. In an inquiry it does not."""


class StripeDispute(BaseModel):
    """`charge.dispute.*`."""

    id: str
    amount: int = Field(gt=0)
    currency: str = Field(min_length=3, max_length=3)
    reason: str = ""
    status: str
    charge: str | None = None
    payment_intent: str | None = None


class Transaction(BaseModel):
    seller_transaction_id: str | None = None


class Outcome(BaseModel):
    outcome_code: str | None = None


class PayPalDispute(BaseModel):
    """`CUSTOMER.DISPUTE.*`: the seller's transaction is the capture."""

    dispute_id: str
    status: str
    reason: str = ""
    dispute_amount: Money
    dispute_life_cycle_stage: str | None = None
    dispute_outcome: Outcome = Outcome()
    disputed_transactions: list[Transaction] = Field(default_factory=list[Transaction])

    @property
    def state(self) -> State:
        if self.status != "RESOLVED":
            return "open"
        return "lost" if self.dispute_outcome.outcome_code in PAYPAL_LOST else "won"


@app.on("payments-stripe", "charge.dispute.created")
async def dispute_created(event: Event[StripeDispute], tx: Tx) -> dict[str, Any]:
    return await _stripe(tx, event.data)


@app.on("payments-stripe", "charge.dispute.updated")
async def dispute_updated(event: Event[StripeDispute], tx: Tx) -> dict[str, Any]:
    return await _stripe(tx, event.data)


@app.on("payments-stripe", "charge.dispute.funds_withdrawn")
async def dispute_funds_withdrawn(event: Event[StripeDispute], tx: Tx) -> dict[str, Any]:
    return await _stripe(tx, event.data)


@app.on("payments-stripe", "charge.dispute.closed")
async def dispute_closed(event: Event[StripeDispute], tx: Tx) -> dict[str, Any]:
    return await _stripe(tx, event.data)


@app.on("payments-stripe", "charge.dispute.funds_reinstated")
async def dispute_funds_reinstated(event: Event[StripeDispute], tx: Tx) -> dict[str, Any]:
    return await _stripe(tx, event.data)


async def _stripe(tx: Tx, dispute: StripeDispute) -> dict[str, Any]:
    payment = dispute.payment_intent or dispute.charge
    if payment is None or not await act_for_payment(tx, "stripe", payment):
        return OTHER
    reported = ServiceDispute(
        provider="stripe",
        payment=payment,
        id=dispute.id,
        amount_cents=from_stripe(dispute.amount, dispute.currency),
        currency=dispute.currency.upper(),
        reason=dispute.reason,
        status=dispute.status,
        state=STRIPE_STATES.get(dispute.status, "open"),
        is_withheld=not dispute.status.startswith("warning_"),
    )
    return {"message": "Dispute is recorded", "dispute": dispute.id, "status": await disputes.follow(tx, reported)}


@app.on("payments-paypal", "CUSTOMER.DISPUTE.CREATED")
async def paypal_dispute_created(event: Event[PayPalDispute], tx: Tx) -> dict[str, Any]:
    return await _paypal(tx, event.data)


@app.on("payments-paypal", "CUSTOMER.DISPUTE.UPDATED")
async def paypal_dispute_updated(event: Event[PayPalDispute], tx: Tx) -> dict[str, Any]:
    return await _paypal(tx, event.data)


@app.on("payments-paypal", "CUSTOMER.DISPUTE.RESOLVED")
async def paypal_dispute_resolved(event: Event[PayPalDispute], tx: Tx) -> dict[str, Any]:
    return await _paypal(tx, event.data)


async def _paypal(tx: Tx, dispute: PayPalDispute) -> dict[str, Any]:
    payments = [each.seller_transaction_id for each in dispute.disputed_transactions]
    payment = next((each for each in payments if each), None)
    if payment is None or not await act_for_payment(tx, "paypal", payment):
        return OTHER
    reported = ServiceDispute(
        provider="paypal",
        payment=payment,
        id=dispute.dispute_id,
        amount_cents=_minor(dispute.dispute_amount),
        currency=dispute.dispute_amount.currency_code.upper(),
        reason=dispute.reason,
        status=dispute.status,
        state=dispute.state,
        is_withheld=dispute.dispute_life_cycle_stage in PAYPAL_HOLDS,
    )
    return {"message": "Dispute is recorded", "dispute": reported.id, "status": await disputes.follow(tx, reported)}


@app.on("payments-paypal", "PAYMENT.CAPTURE.REVERSED")
async def capture_reversed(event: Event[CaptureRefund], tx: Tx) -> dict[str, Any]:
    """Record that PayPal reversed a payment. The resource is a refund that links to the capture, or the capture itself."""
    reversal = event.data
    payment = reversal.capture
    if payment is None or not await act_for_payment(tx, "paypal", payment):
        payment = reversal.id
        if not await act_for_payment(tx, "paypal", payment):
            return OTHER
    reported = ServiceDispute(
        provider="paypal",
        payment=payment,
        id=f"reversal:{reversal.id}",
        amount_cents=_minor(reversal.amount),
        currency=reversal.amount.currency_code.upper(),
        reason="reversed",
        status=reversal.status,
        state="lost",
        is_withheld=True,
    )
    return {"message": "Reversal is recorded", "status": await disputes.reversed_by_service(tx, reported)}


def _minor(amount: Money) -> int:
    return to_minor(amount.value, amount.currency_code.upper())
