"""Handlers of Stripe's webhooks (source `clinic-stripe`): payments and refunds are written to appointments.

One Stripe account may serve several apps: an event with another app's mark, or without any of our ids, is `not_ours`.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from pydantic import BaseModel, Field

from onceward import Event, Tx
from onceward.integrations.stripe import from_stripe
from onceward_apps.clinic import appointment_payments, jobs, metrics
from onceward_apps.clinic.app import app
from onceward_apps.clinic.store import payments, people

SOURCE = "clinic-stripe"
APP = "clinic"
MOST = 10**15
"""No amount is larger, in any currency."""


class Intent(BaseModel):
    id: str = Field(min_length=1, max_length=255)
    amount: int = Field(ge=0, le=MOST)
    amount_received: int | None = Field(None, ge=0, le=MOST)
    currency: str = Field(pattern=r"^[A-Za-z]{3}$")
    metadata: dict[str, str] = {}
    last_payment_error: dict[str, Any] | None = None


class Charge(BaseModel):
    payment_intent: str | None = None
    amount_refunded: int = Field(ge=0, le=MOST)
    currency: str = Field(pattern=r"^[A-Za-z]{3}$")
    metadata: dict[str, str] = {}


class Refund(BaseModel):
    id: str = Field(min_length=1, max_length=255)
    status: str = "failed"
    failure_reason: str | None = None
    payment_intent: str | None = None
    metadata: dict[str, str] = {}


def by_intent(payload: Any) -> str:
    """Events of one payment are handled one after the other, whatever object they are about."""
    found = payload.get("data", {}).get("object", {})
    return str(found.get("payment_intent") or found.get("id") or "")


def is_marked(metadata: dict[str, str]) -> bool:
    return metadata.get("app") == APP


async def is_ours(tx: Tx, metadata: dict[str, str]) -> bool:
    """Whether a payment has our mark, or no mark and the id of one of our appointments.

    Other software on the same account may use the name `appointment_id`, too: its payments must never be touched.
    """
    appointment_id = appointment_of(metadata)
    if is_marked(metadata) or "app" in metadata or appointment_id is None:
        return is_marked(metadata)
    clinic = await people.organization_of(tx, "appointment", str(appointment_id))
    return clinic is not None and tx.organization in (None, clinic)


def appointment_of(metadata: dict[str, str]) -> UUID | None:
    return id_in(metadata, "appointment_id")


def id_in(metadata: dict[str, str], name: str) -> UUID | None:
    try:
        return UUID(metadata.get(name, ""))
    except ValueError:
        return None


def sent_at(event: Event[Any]) -> datetime:
    """Return Stripe's time of the event."""
    created = event.payload.get("created")
    return event.received_at if not isinstance(created, int) else datetime.fromtimestamp(created, UTC)


@app.on(SOURCE, "payment_intent.succeeded", ordering=by_intent)
async def payment_succeeded(event: Event[Intent], tx: Tx) -> dict[str, Any]:
    intent = event.data
    if not await is_ours(tx, intent.metadata):
        return _effect("not_ours")
    received = _received(intent, intent.amount_received or intent.amount)
    if not await _act_for_clinic(tx, received.appointment_id):
        # No clinic knows the appointment, so no clinic's books can hold the payment: the money goes back.
        await tx.enqueue(jobs.refund_stray, payment_intent=intent.id, key=event.key("refund"))
        details = {"payment_intent": intent.id, "amount": received.amount, "currency": received.currency}
        title = "A payment names an appointment that no clinic has; it is refunded"
        await tx.notify_admins("CLINIC_PAYMENT", "error", title, details)
        return _effect("unknown_appointment")
    return _effect(await appointment_payments.receive(tx, received, key=event.key("refund")))


@app.on(SOURCE, "payment_intent.payment_failed", ordering=by_intent)
async def payment_failed(event: Event[Intent], tx: Tx) -> dict[str, Any]:
    intent = event.data
    if not await is_ours(tx, intent.metadata):
        return _effect("not_ours")
    received = _received(intent, intent.amount)
    if not await _act_for_clinic(tx, received.appointment_id):
        return _effect("unknown_appointment")
    code = (intent.last_payment_error or {}).get("code")
    return _effect(await appointment_payments.fail(tx, received, str(code) if code else None))


@app.on(SOURCE, "charge.refunded", ordering=by_intent)
async def charge_refunded(event: Event[Charge], tx: Tx) -> dict[str, Any]:
    charge = event.data
    if charge.payment_intent is None:
        return _effect("not_ours")
    appointment_id = appointment_of(charge.metadata)
    if tx.organization is None:
        clinic = await people.organization_of(tx, "payment", charge.payment_intent)
        if clinic is None and appointment_id is not None and await is_ours(tx, charge.metadata):
            clinic = await people.organization_of(tx, "appointment", str(appointment_id))
        if clinic is None:
            return _effect("not_ours")
        await tx.act_for(clinic)
    if await payments.by_intent(tx, charge.payment_intent) is None and not await is_ours(tx, charge.metadata):
        return _effect("not_ours")
    amount = from_stripe(charge.amount_refunded, charge.currency.upper())
    return _effect(
        await appointment_payments.report_refunded(tx, charge.payment_intent, appointment_id, amount, at=sent_at(event))
    )


@app.on(SOURCE, "refund.failed", ordering=by_intent)
async def refund_failed(event: Event[Refund], tx: Tx) -> dict[str, Any]:
    """The bank returned a refund: the patient does not have the money."""
    return _effect(await _refund_changed(event, tx))


@app.on(SOURCE, "refund.updated", ordering=by_intent)
async def refund_updated(event: Event[Refund], tx: Tx) -> dict[str, Any]:
    """A refund that waited for the bank has ended, or waits on."""
    return _effect(await _refund_changed(event, tx))


async def _refund_changed(event: Event[Refund], tx: Tx) -> str:
    found = event.data
    if tx.organization is None:
        clinic = await people.organization_of(tx, "payment", found.payment_intent or "")
        if clinic is None:
            return "not_ours"
        await tx.act_for(clinic)
    row = await payments.refund_reported(tx, found.id, id_in(found.metadata, "refund_id"))
    if row is None:
        return "not_ours"
    if found.status in ("failed", "canceled"):
        await appointment_payments.fail_refund(tx, row["id"], found.failure_reason or found.status, at=sent_at(event))
        return "refund_failed"
    return f"refund_{await appointment_payments.settle(tx, row['id'], found.status, found.id)}"


class Dispute(BaseModel):
    id: str = Field(min_length=1, max_length=255)
    status: str
    payment_intent: str | None = None


@app.on(SOURCE, "charge.dispute.created", ordering=by_intent)
async def dispute_opened(event: Event[Dispute], tx: Tx) -> dict[str, Any]:
    return _effect(await _dispute_changed(event.data, tx))


@app.on(SOURCE, "charge.dispute.updated", ordering=by_intent)
async def dispute_updated(event: Event[Dispute], tx: Tx) -> dict[str, Any]:
    return _effect(await _dispute_changed(event.data, tx))


@app.on(SOURCE, "charge.dispute.closed", ordering=by_intent)
async def dispute_closed(event: Event[Dispute], tx: Tx) -> dict[str, Any]:
    return _effect(await _dispute_changed(event.data, tx))


async def _dispute_changed(dispute: Dispute, tx: Tx) -> str:
    """The patient's bank takes the money back, or has decided. An inquiry takes nothing."""
    intent = dispute.payment_intent or ""
    if tx.organization is None:
        clinic = await people.organization_of(tx, "payment", intent)
        if clinic is None:
            return "not_ours"
        await tx.act_for(clinic)
    return await appointment_payments.report_dispute(tx, intent, dispute.status)


def _received(intent: Intent, amount: int) -> appointment_payments.Received:
    currency = intent.currency.upper()
    return appointment_payments.Received(
        intent=intent.id,
        amount=from_stripe(amount, currency),
        currency=currency,
        appointment_id=appointment_of(intent.metadata),
    )


async def _act_for_clinic(tx: Tx, appointment_id: UUID | None) -> bool:
    """Act for the clinic of the appointment. A source of one clinic acts for that clinic already."""
    if tx.organization is not None:
        return True
    clinic = None if appointment_id is None else await people.organization_of(tx, "appointment", str(appointment_id))
    if clinic is None:
        return False
    await tx.act_for(clinic)
    return True


def _effect(effect: str) -> dict[str, Any]:
    metrics.PAYMENTS.labels(effect).inc()
    return {"effect": effect}
