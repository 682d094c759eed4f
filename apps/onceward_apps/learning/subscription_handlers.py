"""Handlers of Stripe's webhooks about instalments and subscriptions. Stripe moved some fields: both places are read."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from pydantic import BaseModel, Field

from onceward import Event, Job, Tx
from onceward.integrations.stripe import from_stripe
from onceward.services import Accepted
from onceward_apps.learning import subscriptions
from onceward_apps.learning.app import app
from onceward_apps.learning.enrollments import Result
from onceward_apps.learning.service_calls import again_later
from onceward_apps.learning.stripe_handlers import NOT_OURS, SOURCE, Metadata, belongs, lane


class Period(BaseModel):
    end: int


class Price(BaseModel):
    id: str | None = None
    nickname: str | None = None


class Line(BaseModel):
    period: Period | None = None


class Lines(BaseModel):
    data: list[Line] = Field(default_factory=list[Line])


class Details(BaseModel):
    subscription: str | None = None
    metadata: Metadata | None = None


class Parent(BaseModel):
    subscription_details: Details | None = None


class InvoicePayment(BaseModel):
    """One entry of `payments`, where newer API versions name the payment intent."""

    class Target(BaseModel):
        payment_intent: str | None = None

    payment: Target = Target()
    status: str | None = None


class InvoicePayments(BaseModel):
    data: list[InvoicePayment] = Field(default_factory=list[InvoicePayment])


class InvoiceObject(BaseModel):
    """`invoice.payment_succeeded`."""

    id: str
    subscription: str | None = None
    payment_intent: str | None = None
    amount_paid: int = Field(0, ge=0)
    currency: str
    lines: Lines = Lines()
    metadata: Metadata | None = None
    subscription_details: Details | None = None
    parent: Parent | None = None
    payments: InvoicePayments | None = None

    @property
    def intent(self) -> str | None:
        listed = [] if self.payments is None else self.payments.data
        paid = [each.payment.payment_intent for each in listed if each.status in (None, "paid")]
        return self.payment_intent or next((each for each in paid if each is not None), None)

    @property
    def details(self) -> Details:
        newer = None if self.parent is None else self.parent.subscription_details
        return newer or self.subscription_details or Details()

    @property
    def subscription_id(self) -> str | None:
        return self.subscription or self.details.subscription

    @property
    def period_end(self) -> datetime | None:
        ends = [line.period.end for line in self.lines.data if line.period is not None]
        return datetime.fromtimestamp(max(ends), UTC) if ends else None


class Item(BaseModel):
    price: Price | None = None
    current_period_end: int | None = None


class Items(BaseModel):
    data: list[Item] = Field(default_factory=list[Item])


class SubscriptionObject(BaseModel):
    """`customer.subscription.*`."""

    id: str
    status: str
    current_period_end: int | None = None
    cancel_at_period_end: bool = False
    ended_at: int | None = None
    items: Items = Items()
    metadata: Metadata = Metadata()

    @property
    def period_end(self) -> datetime | None:
        ends = [item.current_period_end for item in self.items.data if item.current_period_end is not None]
        end = self.current_period_end or (max(ends) if ends else None)
        return None if end is None else datetime.fromtimestamp(end, UTC)

    @property
    def plan(self) -> str | None:
        prices = [item.price for item in self.items.data if item.price is not None]
        return (prices[0].nickname or prices[0].id) if prices else None


@app.on(SOURCE, "invoice.payment_succeeded", ordering=lane)
async def invoice_paid(event: Event[InvoiceObject], tx: Tx) -> Result:
    """Record the instalment and extend the access.

    Newer API versions leave the payment out of the event: then a job asks for it, so that the money can be refunded.
    """
    invoice = event.data
    if not await belongs(tx, _metadata(invoice), subscription=invoice.subscription_id):
        return NOT_OURS
    if invoice.intent is None and invoice.amount_paid > 0:
        await tx.enqueue(read_invoice.unique(f"invoice:{invoice.id}", forever=True), invoice_id=invoice.id)
        return {"status": "ASKING_FOR_PAYMENT"}
    return await subscriptions.pay_instalment(tx, _paid(invoice), attempt=event.attempt)


@app.job(name="learning.read_invoice", outside=True, timeout=60)
async def read_invoice(job: Job, *, invoice_id: str) -> Result:
    """Read a paid invoice with its payment, then record the instalment."""
    async with job.transaction() as tx:
        organization = tx.organization
    outcome = await (await app.services.stripe(organization)).retrieve_invoice(invoice_id)
    if not isinstance(outcome, Accepted):
        raise again_later(outcome)
    invoice = InvoiceObject.model_validate(outcome.detail)
    async with job.transaction() as tx:
        return await subscriptions.pay_instalment(tx, _paid(invoice), attempt=job.attempt)


def _metadata(invoice: InvoiceObject) -> Metadata:
    return invoice.details.metadata or invoice.metadata or Metadata()


def _paid(invoice: InvoiceObject) -> subscriptions.Invoice:
    metadata, currency = _metadata(invoice), invoice.currency.upper()
    return subscriptions.Invoice(
        id=invoice.id,
        subscription=invoice.subscription_id,
        payment_intent=invoice.intent,
        amount=from_stripe(invoice.amount_paid, currency),
        currency=currency,
        period_end=invoice.period_end,
        checkout_id=metadata.checkoutId,
        cohort_id=metadata.cohortId,
        user_id=metadata.userId,
    )


@app.on(SOURCE, "customer.subscription.updated", ordering=lane)
async def subscription_updated(event: Event[SubscriptionObject], tx: Tx) -> Result:
    """Mirror the status, the plan and the period."""
    if not await belongs(tx, event.data.metadata, subscription=event.data.id) or tx.organization is None:
        return NOT_OURS
    return await subscriptions.mirror(tx, _mirror(event))


@app.on(SOURCE, "customer.subscription.deleted", ordering=lane)
async def subscription_deleted(event: Event[SubscriptionObject], tx: Tx) -> Result:
    """End the access with the period that was paid."""
    if not await belongs(tx, event.data.metadata, subscription=event.data.id) or tx.organization is None:
        return NOT_OURS
    return await subscriptions.end(tx, _mirror(event))


def _mirror(event: Event[SubscriptionObject]) -> subscriptions.Mirror:
    reported = event.data
    created: Any = event.payload.get("created")
    return subscriptions.Mirror(
        id=reported.id,
        status=reported.status,
        plan=reported.plan,
        current_period_end=reported.period_end,
        cancel_at_period_end=reported.cancel_at_period_end,
        ended_at=None if reported.ended_at is None else datetime.fromtimestamp(reported.ended_at, UTC),
        checkout_id=reported.metadata.checkoutId,
        cohort_id=reported.metadata.cohortId,
        user_id=reported.metadata.userId,
        reported_at=datetime.fromtimestamp(created, UTC) if isinstance(created, int) else event.received_at,
    )
