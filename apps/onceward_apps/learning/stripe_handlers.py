"""Handlers of Stripe's webhooks (`learning-stripe`). Events of one payment are handled one after the other.

One Stripe account may serve several apps and sends every event to each of them. An event is ours if `metadata.app` says so,
or if it names one of our ids; anything else is answered with `not_ours` and stored nowhere.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, cast
from uuid import UUID

from pydantic import BaseModel, Field

from onceward import Event, Tx
from onceward.capacity import release
from onceward.integrations.stripe import from_stripe
from onceward_apps.learning import enrollments, extensions, refund_effects, refund_requests, subscriptions
from onceward_apps.learning.app import app
from onceward_apps.learning.enrollments import PaidSession, Result
from onceward_apps.learning.jobs import promote_soon
from onceward_apps.learning.model import APP, as_uuid
from onceward_apps.learning.store import owners, payments, pending_payments
from onceward_apps.learning.subscription_jobs import end_subscription

SOURCE = "learning-stripe"
NOT_OURS: Result = {"status": "not_ours"}


class Metadata(BaseModel):
    """The metadata that we set when a checkout starts."""

    app: str | None = None
    kind: str | None = None
    cohortId: str | None = None
    userId: str | None = None
    checkoutId: str | None = None
    enrollmentId: str | None = None
    refundId: str | None = None
    reason: str | None = None


class Session(BaseModel):
    """`checkout.session.*`."""

    id: str
    payment_status: str = "unpaid"
    payment_intent: str | None = None
    subscription: str | None = None
    amount_total: int | None = Field(None, ge=0)
    currency: str | None = None
    metadata: Metadata = Metadata()


class Refund(BaseModel):
    """A refund object: `refund.failed`, and the entries of a charge's `refunds`."""

    id: str
    amount: int = 0
    status: str | None = None
    reason: str | None = None
    payment_intent: str | None = None
    failure_reason: str | None = None
    metadata: Metadata = Metadata()


class RefundList(BaseModel):
    data: list[Refund] = Field(default_factory=list[Refund])


class Charge(BaseModel):
    """`charge.refunded`: `amount_refunded` is the sum of all refunds so far."""

    id: str
    amount: int
    amount_refunded: int = Field(ge=0)
    currency: str
    payment_intent: str | None = None
    refunds: RefundList | None = None
    metadata: Metadata = Metadata()


def lane(payload: Any) -> str | None:
    """Return what orders an event: its payment, or its subscription if it has no payment.

    An invoice never shares the lane of its subscription: it waits for the session that enrols, which must not wait for it.
    """
    thing = cast("dict[str, Any]", payload).get("data", {}).get("object", {})
    if thing.get("object") == "subscription":
        return thing.get("id")
    if thing.get("object") == "invoice":
        return thing.get("payment_intent") or thing.get("id")
    return thing.get("payment_intent") or thing.get("subscription") or thing.get("id")


async def belongs(tx: Tx, metadata: Metadata, *, payment: str | None = None, subscription: str | None = None) -> bool:
    """Return whether an event is ours, and act for the organization that its ids name.

    Without a mark, only an id that we know makes it ours. With our mark it is ours even if its ids are unknown.
    """
    if metadata.app not in (None, "", APP):
        return False
    ids = (
        ("payment", payment),
        ("subscription", subscription),
        ("checkout", metadata.checkoutId),
        ("enrollment", metadata.enrollmentId),
        ("cohort", metadata.cohortId),
        ("user", metadata.userId),
    )
    known = await owners.find(tx, ids)
    if tx.organization is None and known is not None:
        await tx.act_for(known)
    return metadata.app == APP or (known is not None and known == tx.organization)


def paid_session(session: Session) -> PaidSession:
    currency = (session.currency or "").upper()
    return PaidSession(
        id=session.id,
        payment_intent=session.payment_intent,
        amount=from_stripe(session.amount_total or 0, currency),
        currency=currency,
        user_id=session.metadata.userId,
        cohort_id=session.metadata.cohortId,
        checkout_id=session.metadata.checkoutId,
        enrollment_id=session.metadata.enrollmentId,
        subscription=session.subscription,
    )


@app.on(SOURCE, "checkout.session.completed", ordering=lane)
async def session_completed(event: Event[Session], tx: Tx) -> Result:
    """Enrol the person, or sell the extension. A session that is not paid yet waits for `async_payment_*`."""
    session = event.data
    if not await belongs(tx, session.metadata):
        return NOT_OURS
    if session.payment_status not in ("paid", "no_payment_required"):
        checkout = await payments.checkout_by_session(tx, session.id) if tx.organization is not None else None
        if checkout is not None:
            await pending_payments.begin(tx, checkout["id"])
        return {"status": "WAITING_FOR_PAYMENT"}
    return await _fulfil(tx, event, session)


@app.on(SOURCE, "checkout.session.async_payment_succeeded", ordering=lane)
async def async_payment_succeeded(event: Event[Session], tx: Tx) -> Result:
    if not await belongs(tx, event.data.metadata):
        return NOT_OURS
    return await _fulfil(tx, event, event.data)


async def _fulfil(tx: Tx, event: Event[Any], session: Session) -> Result:
    paid = paid_session(session)
    if session.metadata.kind == "extension":
        return await extensions.buy_extension(tx, paid)
    result = await enrollments.enrol_paid(tx, paid)
    if paid.subscription is not None and result["status"] == "SUCCESS":
        await subscriptions.start(tx, paid, UUID(result["enrollmentId"]), reported_at=_created(event))
    elif paid.subscription is not None:  # there is no place: the invoice that was paid is refunded when it arrives
        await end_subscription(tx, paid.subscription, at_period_end=False)
    return result


@app.on(SOURCE, "checkout.session.async_payment_failed", ordering=lane)
async def async_payment_failed(event: Event[Session], tx: Tx) -> Result:
    return await _ended(tx, event.data, "failed")


@app.on(SOURCE, "checkout.session.expired", ordering=lane)
async def session_expired(event: Event[Session], tx: Tx) -> Result:
    return await _ended(tx, event.data, "expired")


async def _ended(tx: Tx, session: Session, status: str) -> Result:
    """Free the place of a checkout that was not paid."""
    if not await belongs(tx, session.metadata) or tx.organization is None:
        return NOT_OURS
    checkout = await payments.checkout_by_session(tx, session.id)
    ended = None if checkout is None else await payments.end_checkout(tx, checkout["id"], status)
    if ended is None:
        return {"status": "UNCHANGED"}
    if ended["claim_id"] is not None and await release(tx, [ended["claim_id"]]):
        await promote_soon(tx, ended["cohort_id"])
    return {"status": "RELEASED"}


@app.on(SOURCE, "charge.refunded", ordering=lane)
async def charge_refunded(event: Event[Charge], tx: Tx) -> Result:
    """Apply the refunded sum. The refund of a payment that is not known yet is kept for the payment."""
    charge = event.data
    intent = charge.payment_intent
    if intent is None or not await belongs(tx, charge.metadata, payment=intent):
        return NOT_OURS
    amount = from_stripe(charge.amount_refunded, charge.currency.upper())
    newest = charge.refunds.data[0] if charge.refunds is not None and charge.refunds.data else None
    reason = None if newest is None else (newest.metadata.reason or newest.reason)
    payment = await payments.lock(tx, intent)
    if payment is None:
        if tx.organization is not None and amount > 0:
            await payments.see_refund(tx, intent, amount, reason)
        return {"status": "NO_ENROLLMENT_FOUND"}
    returned: datetime | None = payment["refund_failed_at"]
    if returned is not None and _created(event) <= returned:
        # Sent before a bank returned a refund: its sum contains money that the person does not have.
        return {"status": "STALE", "enrollmentId": _text(payment["enrollment_id"])}
    kind = await refund_effects.apply_refund(tx, payment, amount, reason)
    return {"status": "SUCCESS", "enrollmentId": _text(payment["enrollment_id"]), "refundType": kind}


@app.on(SOURCE, "refund.failed", ordering=lane)
async def refund_failed(event: Event[Refund], tx: Tx) -> Result:
    """A bank returned a refund: tell operators, and try again."""
    reported = event.data
    if not await belongs(tx, reported.metadata, payment=reported.payment_intent):
        return NOT_OURS
    refund = await payments.refund_reported(tx, reported.id, as_uuid(reported.metadata.refundId))
    if refund is None:
        details = {"refund": reported.id, "payment": reported.payment_intent, "reason": reported.failure_reason}
        title = "A refund that was made at the payment service failed: the person does not have the money"
        await tx.notify_admins("REFUND_FAILED", "error", title, details, audience="accounting")
        return {"status": "UNKNOWN_REFUND"}
    if refund["is_earlier"]:
        return {"status": "UNCHANGED", "refundId": str(refund["id"])}
    await payments.refund_requested(tx, refund["id"], reported.id)
    failure = f"returned by the bank: {reported.failure_reason or 'no reason given'}"
    await payments.note_return(tx, refund["payment_id"], _created(event))
    failed = await refund_requests.fail(tx, refund["id"], failure, again=True)
    return {"status": "SUCCESS" if failed else "UNCHANGED", "refundId": str(refund["id"])}


def _text(id: UUID | None) -> str | None:
    return None if id is None else str(id)


def _created(event: Event[Any]) -> datetime:
    """Return Stripe's time of the event."""
    created = event.payload.get("created")
    return event.received_at if not isinstance(created, int) else datetime.fromtimestamp(created, UTC)
