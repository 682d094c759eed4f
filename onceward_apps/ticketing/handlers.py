"""Webhooks of the payment services. All of them end in `fulfil`; the endpoint is `/webhooks/payments/{provider}`."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from pydantic import BaseModel, Field

from onceward import Event, Job, Retry, Tx
from onceward.services import from_stripe, to_minor
from onceward_apps.ticketing import paying, taking_back
from onceward_apps.ticketing.app import app
from onceward_apps.ticketing.jobs import again
from onceward_apps.ticketing.model import Payment
from onceward_apps.ticketing.selling import fulfil
from onceward_apps.ticketing.store import buying as rows
from onceward_apps.ticketing.store import refunds

OTHER = {"message": "Not a checkout of ours"}


class Metadata(BaseModel):
    """What we gave along when the payment was started. Payments without it belong to somebody else."""

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
    """`charge.refunded`: `amount_refunded` is the sum of all refunds so far."""

    id: str
    amount_refunded: int
    currency: str
    payment_intent: str | None = None
    metadata: Metadata = Metadata()


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
    """`PAYMENT.CAPTURE.REFUNDED`: one refund; the link `up` leads to the capture it is of."""

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
    """A card was declined: the checkout stays open for another try, and says what happened."""
    checkout_id = event.data.metadata.checkout_id
    organization = event.data.metadata.organization_id
    if checkout_id is None or organization is None:
        return OTHER
    await tx.act_for(organization)
    await rows.end_checkout(tx, checkout_id, "failed", of=("started",))
    return {"message": "Payment failed", "checkout_id": str(checkout_id)}


@app.on("payments-stripe", "charge.refunded")
async def charge_refunded(event: Event[RefundedCharge], tx: Tx) -> dict[str, Any]:
    """Refunds of ours are known by the time they are requested; what is above them was made at Stripe: book it."""
    charge = event.data
    payment = charge.payment_intent or charge.id
    if not await _is_ours(tx, "stripe", payment, charge.metadata.checkout_id):
        return OTHER
    refunded = from_stripe(charge.amount_refunded, charge.currency)
    booked = await taking_back.refunded_in_all(tx, "stripe", payment, refunded)
    return {"message": "Refund is booked" if booked else "Refund is known", "booked_cents": booked}


@app.on("payments-paypal", "PAYMENT.CAPTURE.REFUNDED")
async def capture_refunded(event: Event[CaptureRefund], tx: Tx) -> dict[str, Any]:
    """A refund of ours names itself; its webhook confirms it like the answer to the call. Any other is booked."""
    made = event.data
    if made.capture is None or not await _is_ours(tx, "paypal", made.capture, None):
        return OTHER
    ours = _uuid(made.custom_id.removeprefix("refund:")) if made.custom_id else None
    if made.status != "COMPLETED":
        return {"message": "Not refunded yet"}
    if ours is not None and await refunds.refund(tx, ours) is not None:
        await taking_back.book_refund(tx, ours, made.id)
        return {"message": "Refund is known", "booked_cents": 0}
    amount = to_minor(made.amount.value, made.amount.currency_code.upper())
    booked = await taking_back.refunded_once(tx, "paypal", made.capture, amount, reference=made.id)
    return {"message": "Refund is booked" if booked else "Refund is known", "booked_cents": booked}


async def _is_ours(tx: Tx, provider: str, payment: str, checkout_id: UUID | None) -> bool:
    """Act for whoever took the payment. One that is meant for a checkout of ours and not known yet is waited for."""
    organization = await refunds.organization_of_payment(tx, provider, payment)
    if organization is None:
        if checkout_id is not None and await rows.find(tx, checkout_id) is not None:
            raise Retry(f"payment {payment} of checkout {checkout_id} is not known (yet)")
        return False
    if tx.organization is not None and tx.organization != organization:
        return False
    await tx.act_for(organization)
    return True


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
    """The buyer has agreed and may never come back to our page: take the money by ourselves."""
    units = event.payload.get("resource", {}).get("purchase_units") or [{}]
    checkout_id = _uuid(units[0].get("custom_id"))
    if checkout_id is None:
        return OTHER
    await tx.enqueue(reconcile.once(f"reconcile:{checkout_id}"), checkout_id=checkout_id)
    return {"message": "Order will be captured", "checkout_id": str(checkout_id)}


@app.job(name="ticketing.reconcile", outside=True, attempts=8, timeout=60)
async def reconcile(job: Job, *, checkout_id: UUID) -> dict[str, Any]:
    """Ask the payment service what became of a checkout, and do what its webhook would have done."""
    async with job.transaction() as tx:
        found = await rows.find(tx, checkout_id)
    if found is None or found["provider_session"] is None:
        return {"message": "Nothing to ask about"}
    try:
        payment = await paying.look_up(found)
    except paying.Unanswered as error:
        raise again(error.outcome) from error
    except paying.Closed:
        async with job.transaction() as tx:
            await rows.find(tx, checkout_id)
            await rows.payment_closed(tx, checkout_id)
        return {"message": "Never paid"}
    if payment is None:
        return {"message": "Not paid"}
    async with job.transaction() as tx:
        return await fulfil(tx, checkout_id, payment)


def _uuid(text: str | None) -> UUID | None:
    try:
        return None if text is None else UUID(text)
    except ValueError:
        return None
