"""Handlers of webhooks about refunds. Each reports one refund at the payment service; `reversals` applies it."""

from __future__ import annotations

from typing import Any

from onceward import Event, Retry, Tx
from onceward_apps.ticketing import refund_calls, reversals
from onceward_apps.ticketing.app import app
from onceward_apps.ticketing.handlers import OTHER, CaptureRefund, RefundedCharge, StripeRefund
from onceward_apps.ticketing.jobs import follow_or_wait, look_at_refunds
from onceward_apps.ticketing.refund_calls import ServiceRefund
from onceward_apps.ticketing.store import baskets as rows
from onceward_apps.ticketing.store import refunds

MESSAGES: dict[reversals.Followed, str] = {
    "booked": "Refund is booked",
    "known": "Refund is known",
    "pending": "Refund is pending",
    "failed": "Refund failed",
    "waits": "Refund waits for another of the same payment",
    "excess": "Refund is more than was left of the payment",
}


@app.on("payments-stripe", "charge.refunded")
async def charge_refunded(event: Event[RefundedCharge], tx: Tx) -> dict[str, Any]:
    """Enqueue a job that asks Stripe for the refunds: the event has only their sum, with pending ones included."""
    charge = event.data
    payment = charge.payment_intent or charge.id
    if not await act_for_payment(tx, "stripe", payment):
        checkout_id = charge.metadata.checkout_id
        if checkout_id is not None and await rows.find(tx, checkout_id) is not None:
            raise Retry(f"payment {payment} of checkout {checkout_id} is not known (yet)")
        return OTHER
    await look_at_refunds(tx, "stripe", payment, because=event.event_id)
    return {"message": "Refunds will be looked up"}


@app.on("payments-stripe", "refund.created")
async def refund_created(event: Event[StripeRefund], tx: Tx) -> dict[str, Any]:
    return await _stripe(tx, event.data)


@app.on("payments-stripe", "refund.updated")
async def refund_updated(event: Event[StripeRefund], tx: Tx) -> dict[str, Any]:
    return await _stripe(tx, event.data)


@app.on("payments-stripe", "charge.refund.updated")
async def charge_refund_updated(event: Event[StripeRefund], tx: Tx) -> dict[str, Any]:
    return await _stripe(tx, event.data)


@app.on("payments-stripe", "refund.failed")
async def refund_failed(event: Event[StripeRefund], tx: Tx) -> dict[str, Any]:
    return await _stripe(tx, event.data)


@app.on("payments-paypal", "PAYMENT.CAPTURE.REFUNDED")
async def capture_refunded(event: Event[CaptureRefund], tx: Tx) -> dict[str, Any]:
    return await _paypal(tx, event.data)


@app.on("payments-paypal", "PAYMENT.REFUND.PENDING")
async def paypal_refund_pending(event: Event[CaptureRefund], tx: Tx) -> dict[str, Any]:
    return await _paypal(tx, event.data)


@app.on("payments-paypal", "PAYMENT.REFUND.FAILED")
async def paypal_refund_failed(event: Event[CaptureRefund], tx: Tx) -> dict[str, Any]:
    return await _paypal(tx, event.data)


async def _stripe(tx: Tx, refund: StripeRefund) -> dict[str, Any]:
    payment = refund.payment_intent or refund.charge
    if payment is None:
        return OTHER
    return await record_refund(tx, refund_calls.read_stripe(payment, refund.model_dump()))


async def _paypal(tx: Tx, refund: CaptureRefund) -> dict[str, Any]:
    if refund.capture is None:
        return OTHER
    return await record_refund(tx, refund_calls.read_paypal(refund.capture, refund.model_dump()))


async def record_refund(tx: Tx, reported: ServiceRefund) -> dict[str, Any]:
    """Apply a refund that the service reports. If the payment is not known yet, keep the refund until it is."""
    organization = await refunds.organization_of_payment(tx, reported.provider, reported.payment)
    if organization is None and reported.attempt is not None:
        return OTHER  # one of ours, of a payment that this database does not have
    if organization is None:
        await refunds.keep_early(
            tx, reported.provider, reported.payment, reported.id, reported.amount_cents, reported.status
        )
        return OTHER
    if not await act_for_payment(tx, reported.provider, reported.payment):
        return OTHER
    result = await follow_or_wait(tx, reported)
    return {"message": MESSAGES[result], "refund": reported.id}


async def act_for_payment(tx: Tx, provider: str, payment: str) -> bool:
    """Act for the organization of a payment. False: the payment is unknown, or the source belongs to another organization."""
    organization = await refunds.organization_of_payment(tx, provider, payment)
    if organization is None or (tx.organization is not None and tx.organization != organization):
        return False
    if tx.organization is None:
        await tx.act_for(organization)
    return True
