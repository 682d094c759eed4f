"""Handlers of the payment services' webhooks, received at `/webhooks/payments/{provider}`. All payments go to `fulfil`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from pydantic import BaseModel, Field

from onceward import Event, Job, Tx
from onceward.integrations.paypal import to_minor
from onceward.integrations.stripe import from_stripe
from onceward_apps.ticketing import checkout_payments, refund_calls
from onceward_apps.ticketing.app import app
from onceward_apps.ticketing.jobs import again
from onceward_apps.ticketing.model import Payment
from onceward_apps.ticketing.sales import fulfil
from onceward_apps.ticketing.store import baskets as rows
from onceward_apps.ticketing.store import refunds

OTHER = {"message": "Not a checkout of ours"}


class Metadata(BaseModel):
    """The metadata that we set when the payment started. A payment without it is not ours."""

    checkout_id: UUID | None = None
    organization_id: UUID | None = None
    event_id: UUID | None = None


class Charge(BaseModel):
    """`charge.succeeded`."""

    id: str
    amount: int = Field(gt=0)
    currency: str = Field(min_length=3, max_length=3)
    status: str
    payment_intent: str | None = None
    metadata: Metadata = Metadata()


class PaymentIntent(BaseModel):
    """`payment_intent.succeeded`."""

    id: str
    amount: int = Field(gt=0)
    amount_received: int | None = None
    currency: str = Field(min_length=3, max_length=3)
    status: str
    metadata: Metadata = Metadata()


class Session(BaseModel):
    """`checkout.session.completed`."""

    id: str
    amount_total: int | None = None
    currency: str | None = None
    payment_status: str
    payment_intent: str | None = None
    metadata: Metadata = Metadata()


class RefundedCharge(BaseModel):
    """`charge.refunded`: `amount_refunded` is the sum of all refunds so far, pending ones included."""

    id: str
    amount_refunded: int
    currency: str
    payment_intent: str | None = None
    metadata: Metadata = Metadata()


class StripeRefund(BaseModel):
    """`refund.*` and `charge.refund.updated`: one refund in its present state."""

    id: str
    amount: int = Field(gt=0)
    currency: str = Field(min_length=3, max_length=3)
    status: str | None = None
    charge: str | None = None
    payment_intent: str | None = None
    failure_reason: str | None = None
    metadata: dict[str, str] = Field(default_factory=dict[str, str])


class Money(BaseModel):
    currency_code: str = Field(min_length=3, max_length=3)
    value: str


class Capture(BaseModel):
    """`PAYMENT.CAPTURE.COMPLETED`."""

    id: str
    status: str
    amount: Money
    custom_id: str | None = None


class Link(BaseModel):
    rel: str
    href: str


class CaptureRefund(BaseModel):
    """`PAYMENT.CAPTURE.REFUNDED` and `PAYMENT.REFUND.*`: one refund; its link `up` names the capture."""

    id: str
    status: str
    amount: Money
    custom_id: str | None = None
    links: list[Link] = Field(default_factory=list[Link])

    @property
    def capture(self) -> str | None:
        ups = [link.href.rstrip("/").rsplit("/", 1)[-1] for link in self.links if link.rel == "up"]
        return ups[0] if ups else None


class PayPalOrder(BaseModel):
    """`CHECKOUT.ORDER.APPROVED`."""

    id: str


@app.on("payments-stripe", "charge.succeeded")
async def charge_succeeded(event: Event[Charge], tx: Tx) -> dict[str, Any]:
    charge = event.data
    return await _paid(tx, event, charge.metadata, charge.payment_intent or charge.id, charge.amount, charge.currency)


@app.on("payments-stripe", "payment_intent.succeeded")
async def payment_intent_succeeded(event: Event[PaymentIntent], tx: Tx) -> dict[str, Any]:
    intent = event.data
    return await _paid(tx, event, intent.metadata, intent.id, intent.amount_received or intent.amount, intent.currency)


@app.on("payments-stripe", "checkout.session.completed")
async def session_completed(event: Event[Session], tx: Tx) -> dict[str, Any]:
    session = event.data
    if session.payment_status != "paid" or session.payment_intent is None or session.amount_total is None:
        return {"message": "Not paid yet"}
    return await _paid(
        tx, event, session.metadata, session.payment_intent, session.amount_total, session.currency or ""
    )


async def _paid(
    tx: Tx, event: Event[Any], metadata: Metadata, payment: str, amount: int, currency: str
) -> dict[str, Any]:
    if metadata.checkout_id is None:
        return OTHER
    return await fulfil(
        tx,
        metadata.checkout_id,
        Payment(
            provider="stripe",
            id=payment,
            reference=event.event_id,
            amount_cents=from_stripe(amount, currency),
            currency=currency.upper(),
            organization=metadata.organization_id,
            event=metadata.event_id,
        ),
    )


@app.on("payments-stripe", "payment_intent.payment_failed")
async def payment_failed(event: Event[PaymentIntent], tx: Tx) -> dict[str, Any]:
    """Mark the checkout as failed because the card was declined. The buyer may try again."""
    return await _declined(tx, event.data.metadata.checkout_id)


@app.on("payments-paypal", "PAYMENT.CAPTURE.COMPLETED")
async def capture_completed(event: Event[Capture], tx: Tx) -> dict[str, Any]:
    capture = event.data
    checkout_id = _uuid(capture.custom_id)
    if checkout_id is None:
        return OTHER
    currency = capture.amount.currency_code.upper()
    payment = Payment(
        provider="paypal",
        id=capture.id,
        reference=event.event_id,
        amount_cents=to_minor(capture.amount.value, currency),
        currency=currency,
    )
    return await fulfil(tx, checkout_id, payment)


@app.on("payments-paypal", "CHECKOUT.ORDER.APPROVED")
async def order_approved(event: Event[PayPalOrder], tx: Tx) -> dict[str, Any]:
    """Capture an approved order by a job: the buyer may never return to our page."""
    units = event.payload.get("resource", {}).get("purchase_units") or [{}]
    checkout_id = _uuid(units[0].get("custom_id"))
    if checkout_id is None:
        return OTHER
    # By the id of the approved order: the buyer may have opened another page since.
    order_id = event.data.id
    order = reconcile.unique(f"reconcile:{checkout_id}:{order_id}")
    await tx.enqueue(order, checkout_id=checkout_id, provider="paypal", session=order_id)
    return {"message": "Order will be captured", "checkout_id": str(checkout_id)}


@app.on("payments-paypal", "PAYMENT.CAPTURE.DECLINED")
async def capture_declined(event: Event[Capture], tx: Tx) -> dict[str, Any]:
    """Mark the checkout as failed because PayPal refused the card or account. The buyer may try again."""
    return await _declined(tx, _uuid(event.data.custom_id))


@app.on("payments-paypal", "PAYMENT.CAPTURE.DENIED")
async def capture_denied(event: Event[Capture], tx: Tx) -> dict[str, Any]:
    return await _declined(tx, _uuid(event.data.custom_id))


async def _declined(tx: Tx, checkout_id: UUID | None) -> dict[str, Any]:
    if checkout_id is None or await rows.find(tx, checkout_id) is None:
        return OTHER  # unknown, or of an organization that this source does not belong to
    await rows.end_checkout(tx, checkout_id, "failed", of=("started",))
    return {"message": "Payment failed", "checkout_id": str(checkout_id)}


@app.job(name="ticketing.reconcile", outside=True, max_attempts=8, timeout=60)
async def reconcile(
    job: Job, *, checkout_id: UUID, provider: str | None = None, session: str | None = None
) -> dict[str, Any]:
    """Ask the payment service for the state of a checkout, and do what its webhook would have done.

    Without `session` the job asks about the current payment page; `session` names a page that may have been replaced.
    """
    async with job.transaction() as tx:
        checkout = await rows.find(tx, checkout_id)
    if checkout is None:
        return {"message": "Nothing to ask about"}
    page = {**checkout} if session is None else {**checkout, "provider": provider, "provider_session": session}
    if page["provider_session"] is None:
        return {"message": "Nothing to ask about"}
    try:
        payment = await checkout_payments.look_up(page)
    except checkout_payments.Unanswered as error:
        raise await again(job, page["provider"], error.outcome) from error
    except (checkout_payments.Closed, checkout_payments.Declined) as end:
        return await _page_ended(job, page, declined=isinstance(end, checkout_payments.Declined))
    if payment is None:
        return {"message": "Not paid"}
    reported = await refund_calls.list_all(job.organization, payment.provider, payment.id)
    if not isinstance(reported, list):
        raise await again(job, payment.provider, reported)
    async with job.transaction() as tx:
        for refund in reported:
            if refund.attempt is None:  # `follow_refund` follows ours by their own ids
                values = (refund.id, refund.amount_cents, refund.status)
                await refunds.keep_early(tx, payment.provider, payment.id, *values)
        result = await fulfil(tx, checkout_id, payment)
        await rows.older_page_ended(tx, checkout_id, page["provider_session"])
    return result


async def _page_ended(job: Job, page: Mapping[str, Any], *, declined: bool) -> dict[str, Any]:
    """Record that a page ended unpaid: nobody asks about it again, and the buyer may open another page."""
    async with job.transaction() as tx:
        now = await rows.find(tx, page["id"])
        if now["provider_session"] == page["provider_session"]:
            if declined:
                await rows.end_checkout(tx, page["id"], "failed", of=("started",))
            else:
                await rows.payment_closed(tx, page["id"])
        await rows.older_page_ended(tx, page["id"], page["provider_session"])
    return {"message": "Declined" if declined else "Never paid"}


def _uuid(text: str | None) -> UUID | None:
    try:
        return None if text is None else UUID(text)
    except ValueError:
        return None
