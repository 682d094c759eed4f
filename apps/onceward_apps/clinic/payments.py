"""Payments of appointments: links, what follows when money arrives or goes back, refunds. The engine talks to
Stripe."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, Literal
from uuid import UUID

from onceward import Tx
from onceward.money import Money
from onceward.payments import Accept, Dispute, Payment, PaymentError, Refund, Return
from onceward_apps.clinic import bookings, correspondence
from onceward_apps.clinic.app import ACCOUNT, APPOINTMENT, app, settings
from onceward_apps.clinic.errors import NotAllowed, NotRefundable
from onceward_apps.clinic.model import OPEN, UNFINISHED, is_kept, payment_status, refund_share
from onceward_apps.clinic.return_pages import return_urls
from onceward_apps.clinic.store import appointments, people

LINK_PAUSE = timedelta(minutes=1)
"""A second request for a payment link within this time is the same request: a button may be pressed twice."""
LINK_DAYS = timedelta(days=30)
"""How long a link can be paid, also after the visit."""


async def lock_appointment(tx: Tx, subject_id: str) -> None:
    await appointments.get(tx, UUID(subject_id), lock=True)


async def find_appointments(tx: Tx, text: str) -> Sequence[UUID]:
    """Return the appointments of a patient with this name, number or reference."""
    return await people.appointments_of_named(tx, text)


app.payments.subject(APPOINTMENT, lock=lock_appointment, find=find_appointments)


# -- what the engine reports -------------------------------------------------------------------------------------------


@app.payments.on_paid(APPOINTMENT)
async def take(payment: Payment, tx: Tx) -> Accept | Return:
    """Keep one payment of an appointment that was not cancelled, and return every other one.

    If all of it went back, the next one is kept: an appointment that was cancelled and restored is paid again.
    """
    row = await bookings.appointment(tx, UUID(payment.subject_id))
    others = [each for each in await _payments(tx, row["id"]) if each.id != payment.id]
    problem = "cancelled" if row["status"] == "cancelled" else None
    if problem is None and any(is_kept(each) for each in others):
        problem = "duplicate"
        await _alert(tx, "An appointment was paid twice; the second payment is refunded", payment)
    if problem is not None:
        await refresh(tx, row["id"])
        return Return(problem, result={"effect": problem})
    row = await refresh(tx, row["id"])
    if payment.is_exact:
        await bookings.announce(tx, "appointment.paid", row, "payment")
        return Accept(result={"effect": "paid"})
    await _alert(tx, "A payment has another amount than the appointment: keep it or refund it", payment)
    return Accept(result={"effect": "wrong_amount"})


@app.payments.on_processing(APPOINTMENT)
@app.payments.on_declined(APPOINTMENT)
async def follow(payment: Payment, tx: Tx) -> None:
    await refresh(tx, UUID(payment.subject_id))


@app.payments.on_unpaid(APPOINTMENT)
async def forget_link(payment: Payment, tx: Tx) -> None:
    await appointments.set_payment_url(tx, UUID(payment.subject_id), None)
    await refresh(tx, UUID(payment.subject_id))


@app.payments.on_refunded(APPOINTMENT)
async def follow_refund(refund: Refund, tx: Tx) -> None:
    await refresh(tx, UUID(refund.payment.subject_id))


@app.payments.on_disputed(APPOINTMENT)
async def follow_dispute(dispute: Dispute, tx: Tx) -> None:
    """Show the dispute. If the clinic gets the money of an appointment that was cancelled meanwhile, the patient gets
    the share of the cancellation: while the bank decided, nothing could be refunded."""
    row = await refresh(tx, UUID(dispute.payment.subject_id))
    if dispute.status != "won" or dispute.payment.status == "disputed" or row["status"] != "cancelled":
        return
    cancelled_at = await appointments.cancelled_at(tx, row["id"])
    share = await share_returned(tx, row, by=row["cancelled_by"], at=cancelled_at)
    await end_cancelled(tx, row["id"], share_percent=share, key=await cancellation_key(tx, row["id"]), actor="disputes")


async def refresh(tx: Tx, appointment_id: UUID) -> Any:
    """Store the payment status that follows from the payments of an appointment, and return the appointment."""
    row = await bookings.appointment(tx, appointment_id, lock=True)
    paid = await _payments(tx, appointment_id)
    refunding = {each.id for each in paid if each.received and await _is_refunding(tx, each)}
    return await appointments.set_payment_status(tx, appointment_id, payment_status(row["price"], paid, refunding))


async def _payments(tx: Tx, appointment_id: UUID) -> list[Payment]:
    return await tx.payments.of(APPOINTMENT, appointment_id)


async def _is_refunding(tx: Tx, payment: Payment) -> bool:
    return any(each.status in UNFINISHED for each in await tx.payments.refunds(payment.id))


async def _alert(tx: Tx, title: str, payment: Payment) -> None:
    details = {"payment": str(payment.id), "amount": str(payment.money), "appointment": payment.subject_id}
    await tx.notify_admins("CLINIC_PAYMENT", "error", title, details)


# -- what the clinic requests ------------------------------------------------------------------------------------------


async def request_link(tx: Tx, appointment_id: UUID) -> int:
    """Send the patient a link to the payment page, and return how many links were sent.

    A link that was requested in the last minute is not followed by another one: the patient gets one message.
    """
    row = await bookings.appointment(tx, appointment_id, lock=True)
    if row["price"] == 0:
        raise NotAllowed(f"appointment {appointment_id} costs nothing")
    if row["status"] not in (*OPEN, "in_progress", "completed"):
        raise NotAllowed(f"appointment {appointment_id} is {row['status']}: nothing is to be paid")
    if any(is_kept(each) for each in await _payments(tx, appointment_id)):
        raise NotAllowed(f"the payment of appointment {appointment_id} is {row['payment_status']}")
    if row["payment_link_at"] is not None and await people.now(tx) - row["payment_link_at"] < LINK_PAUSE:
        return row["payment_links"]
    patient = await bookings.patient(tx, row["patient_id"])
    paid_url, unpaid_url = return_urls(appointment_id)
    try:
        page = await tx.payments.open(
            APPOINTMENT,
            appointment_id,
            amount=Money(row["price"], row["currency"]),
            title="Appointment",
            account=ACCOUNT,
            success_url=paid_url,
            cancel_url=unpaid_url,
            expires=LINK_DAYS,
            locale=patient["locale"],
            data={"patient": str(patient["id"])},  # an erasure finds the payment by it
        )
    except PaymentError as error:
        raise NotAllowed(str(error)) from error
    await appointments.set_payment_url(tx, appointment_id, page.url)
    number = await appointments.count_payment_link(tx, appointment_id)
    await refresh(tx, appointment_id)
    await correspondence.send_to_patient(
        tx,
        "clinic.payment_link",
        kind="payment-link",
        key=f"clinic:{appointment_id}:payment-link:{number}",
        patient=patient,
        appointment=row,
        data={"url": page.url, "amount": row["price"], "currency": row["currency"]},
        expires_at=page.expires_at,
    )
    return number


async def refund(
    tx: Tx,
    appointment_id: UUID,
    *,
    amount: int | None,
    reason: str,
    key: str | None,
    actor: str,
    payment_id: UUID | None = None,
) -> Refund:
    """Refund an amount of a payment, or what is left of it. The same key twice is one refund.

    Without a key, the same amount of a payment is refunded once for the same reason.
    """
    await bookings.appointment(tx, appointment_id, lock=True)
    paid = [each for each in await _payments(tx, appointment_id) if each.received and payment_id in (None, each.id)]
    for payment in paid if key is not None else ():
        for known in await tx.payments.refunds(payment.id):
            if known.key == key:
                return known
    for payment in paid:
        if await tx.payments.refundable(payment.id) <= 0:
            continue
        if key is None and amount is not None and await _was_refunded_for(tx, payment, amount, reason):
            raise NotRefundable(
                f"{amount} of payment {payment.id} was refunded for the same reason:"
                " give another reason or an Idempotency-Key"
            )
        part = None if amount is None else Money(amount, payment.amount.currency)
        try:
            requested = await tx.payments.refund(payment, amount=part, reason=reason, key=key, by=actor)
        except PaymentError as error:
            raise NotRefundable(str(error)) from error
        if requested is not None:
            await refresh(tx, appointment_id)
            return requested
    if any(each.status == "disputed" for each in paid):
        raise NotRefundable(f"appointment {appointment_id} is disputed: the patient's bank decides who gets the money")
    raise NotRefundable(f"appointment {appointment_id} has no payment that can be refunded")


async def _was_refunded_for(tx: Tx, payment: Payment, amount: int, reason: str) -> bool:
    return any(
        (each.amount.amount, each.reason.strip()) == (amount, reason.strip()) and each.status != "failed"
        for each in await tx.payments.refunds(payment.id)
    )


async def share_returned(tx: Tx, row: Any, *, by: Literal["clinic", "patient"], at: datetime | None = None) -> int:
    """Return the percentage of the price that a cancellation at this time, or now, gives back."""
    configured = settings()
    return refund_share(
        by=by,
        starts_at=row["starts_at"],
        now=at or await people.now(tx),
        full_until=timedelta(hours=configured.refund_hours),
        late_percent=configured.late_refund_percent,
    )


async def cancellation_fee(tx: Tx, row: Any) -> int:
    """Return how much of their payment a patient would lose who cancels this appointment now, in minor units."""
    share = await share_returned(tx, row, by="patient")
    fee = 0
    for payment in await _payments(tx, row["id"]):
        if payment.decision == "accepted" and payment.is_exact:
            # While the bank decides, nothing can be refunded, but the clinic may get the money.
            is_open = payment.status == "disputed"
            left = payment.received - payment.refunded if is_open else await tx.payments.refundable(payment.id)
            fee += max(0, left - payment.received * share // 100)
    return fee


async def cancellation_key(tx: Tx, appointment_id: UUID) -> str:
    """Return the name of the last cancellation: its refund is made once."""
    number = await appointments.count_cancellations(tx, appointment_id)
    return "cancelled" if number == 1 else f"cancelled:{number}"


async def end_cancelled(tx: Tx, appointment_id: UUID, *, share_percent: int, key: str, actor: str) -> None:
    """Close the payment page of a cancelled appointment and refund `share_percent` of the price, all of a wrong amount.

    The key names the cancellation: an appointment that was restored may be cancelled again.
    """
    await tx.payments.close(APPOINTMENT, appointment_id)
    for payment in await _payments(tx, appointment_id):
        if payment.decision == "accepted":
            percent = share_percent if payment.is_exact else 100
            await tx.payments.refund(payment, percent=percent, reason="appointment_cancelled", key=key, by=actor)
    await refresh(tx, appointment_id)
