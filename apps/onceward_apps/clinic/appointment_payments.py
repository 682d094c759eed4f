"""Payments and refunds of appointments. Nothing here calls Stripe: jobs do, after the commit."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

from onceward import Tx
from onceward_apps.clinic.errors import NotAllowed, NotFound, NotRefundable
from onceward_apps.clinic.model import OPEN, Payment, judge_payment, payment_status
from onceward_apps.clinic.store import appointments, payments, people

Row = Any

LINK_PAUSE = timedelta(minutes=1)
"""A second request for a payment link within this time is the same request: a button may be pressed twice."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Received:
    """A payment as Stripe reports it, in our minor units."""

    intent: str
    amount: int
    currency: str
    appointment_id: UUID | None


async def receive(tx: Tx, received: Received, *, key: str) -> str:
    """Record a payment and return what it caused. `key` is the key of a refund that it may need."""
    appointment = None
    if received.appointment_id is not None:
        # Locked before the payments are read: two payments at once may both see an unpaid appointment.
        appointment = await appointments.get(tx, received.appointment_id, lock=True)
    known = None if appointment is None else appointment["id"]
    row = await payments.succeeded(tx, received.intent, known, received.amount, received.currency)
    if row is None:
        return "known"
    if appointment is None:
        await payments.set_problem(tx, row["id"], "unknown_appointment")
        await _refund_all(tx, row, key=key, reason="unknown_appointment", by="policy")
        await _alert(tx, "A payment names an appointment that does not exist; it is refunded", received, row)
        return "unknown_appointment"
    others = [each for each in await payments.of_appointment(tx, appointment["id"]) if each["id"] != row["id"]]
    problem = judge_payment(
        status=appointment["status"],
        price=appointment["price"],
        currency=appointment["currency"],
        paid_already=any(each["status"] == "succeeded" and each["problem"] is None for each in others),
        amount=received.amount,
        paid_in=received.currency,
    )
    if problem is not None:
        await payments.set_problem(tx, row["id"], problem)
        if problem == "wrong_amount":
            await _alert(tx, "A payment has another amount or currency than the appointment", received, row)
        else:
            await _refund_all(tx, row, key=key, reason=problem, by="policy")
            if problem == "duplicate":
                await _alert(tx, "An appointment was paid twice; the second payment is refunded", received, row)
    await refresh(tx, appointment["id"])
    if problem is None:
        await announce_paid(tx, appointment["id"])
    return problem or "paid"


async def announce_paid(tx: Tx, appointment_id: UUID) -> None:
    from onceward_apps.clinic.bookings import announce

    row = await appointments.get(tx, appointment_id)
    if row is not None:
        await announce(tx, "appointment.paid", row, "payment")


async def fail(tx: Tx, received: Received, why: str | None) -> str:
    """Record a failed try to pay."""
    appointment = None
    if received.appointment_id is not None:
        # Before the payment, as everywhere.
        appointment = await appointments.get(tx, received.appointment_id, lock=True)
    if appointment is None:
        return "unknown_appointment"
    row = await payments.failed(tx, received.intent, appointment["id"], received.amount, received.currency, why)
    if row is None:
        return "known"
    await refresh(tx, appointment["id"])
    return "failed"


async def report_refunded(tx: Tx, intent: str, appointment_id: UUID | None, amount: int, *, at: datetime) -> str:
    """Record the sum that Stripe had refunded of a payment at a time, also before the payment itself is known."""
    appointment = None if appointment_id is None else await appointments.get(tx, appointment_id, lock=True)
    row = await payments.refunded(tx, intent, None if appointment is None else appointment["id"], amount, at)
    if row["appointment_id"] is not None:
        await refresh(tx, row["appointment_id"])
    if row["status"] == "expected":
        return "before_payment"
    return "refunded" if row["refunded"] >= (row["amount"] or 0) else "partially_refunded"


DISPUTES = {"needs_response": "open", "under_review": "open", "lost": "lost", "won": "won"}
"""What a dispute means for the money. Inquiries (`warning_...`) take nothing."""
UNDER_DISPUTE = ("open", "lost")


async def report_dispute(tx: Tx, intent: str, status: str) -> str:
    """Record that the patient's bank took the money of a payment back, or returned it to the clinic."""
    row = await payments.by_intent(tx, intent)
    if row is None:
        return "not_ours"
    if status not in DISPUTES:
        return "inquiry"
    if row["appointment_id"] is not None:
        await appointments.get(tx, row["appointment_id"], lock=True)
    if await payments.set_dispute(tx, row["id"], DISPUTES[status]) and status != "won":
        details = {"payment_id": str(row["id"]), "payment_intent": intent, "status": status}
        title = "A patient's bank took a payment back: answer the dispute at Stripe"
        if status == "lost":
            title = "A dispute was lost: the patient has the money back"
        await tx.notify_admins("CLINIC_DISPUTE", "error", title, details)
    if row["appointment_id"] is not None:
        await refresh(tx, row["appointment_id"])
    return f"dispute_{DISPUTES[status]}"


async def refresh(tx: Tx, appointment_id: UUID) -> str:
    """Store the payment status that follows from the payments of an appointment, and return it."""
    appointment = await appointments.get(tx, appointment_id, lock=True)
    if appointment is None:
        raise NotFound(f"there is no appointment {appointment_id}")
    rows = [
        Payment(
            status=each["status"],
            amount=each["amount"],
            refunded=each["refunded"],
            problem=each["problem"],
            refund_pending=each["refund_pending"],
            dispute=each["dispute"],
        )
        for each in await payments.of_appointment(tx, appointment_id)
    ]
    status = payment_status(appointment["price"], rows, link_open=appointment["payment_links"] > 0)
    await payments.set_status(tx, appointment_id, status)
    return status


# -- refunds -----------------------------------------------------------------------------------------------------------


async def refund(
    tx: Tx,
    appointment_id: UUID,
    *,
    amount: int | None,
    reason: str,
    key: str | None,
    actor: str,
    payment_id: UUID | None = None,
) -> Row:
    """Refund an amount of a payment, or what is left of it. The same key twice is one refund.

    Without a key, the same amount of a payment is refunded once for the same reason.
    """
    if key is not None and (known := await payments.refund_by_key(tx, key)) is not None:
        return known
    rows = [each for each in await payments.of_appointment(tx, appointment_id) if each["status"] == "succeeded"]
    if payment_id is not None:
        rows = [each for each in rows if each["id"] == payment_id]
    for row in rows:
        if row["dispute"] in UNDER_DISPUTE:
            raise NotRefundable(f"payment {row['id']} is disputed: the patient's bank decides who gets the money")
        left = await payments.refundable(tx, row["id"])
        if left > 0:
            break
    else:
        raise NotRefundable(f"appointment {appointment_id} has no payment that can be refunded")
    if amount is not None and not 0 < amount <= left:
        raise NotRefundable(f"amount {amount} is not between 1 and {left}, which is left of payment {row['id']}")
    if key is None and amount is not None and await payments.was_refunded_for(tx, row["id"], amount, reason):
        raise NotRefundable(
            f"{amount} of payment {row['id']} was refunded for the same reason: give another reason or an Idempotency-Key"
        )
    key = key or f"appointment:{appointment_id}:refund:{uuid4()}"
    created = await _request(tx, row, amount or left, key=key, reason=reason, by=actor)
    await refresh(tx, appointment_id)
    if created is None:
        raise NotRefundable(f"the key {key!r} was used for another refund")
    return created


async def refund_cancelled(tx: Tx, appointment: Row, *, share_percent: int, actor: str) -> None:
    """Refund the payments of a cancelled appointment: `share_percent` of the price, and all of any other payment."""
    for row in await payments.of_appointment(tx, appointment["id"]):
        if row["status"] != "succeeded" or row["dispute"] in UNDER_DISPUTE:
            continue
        left = await payments.refundable(tx, row["id"])
        share = 100 if row["problem"] is not None else share_percent
        amount = min(left, row["amount"] * share // 100)
        if amount > 0:
            key = f"payment:{row['id']}:cancel"
            await _request(tx, row, amount, key=key, reason="appointment_cancelled", by=actor)
    await refresh(tx, appointment["id"])


async def settle(tx: Tx, refund_id: UUID, status: str, provider_id: str | None, failure: str | None = None) -> str:
    """Record what Stripe says about one of our refunds."""
    row = await payments.refund(tx, refund_id)
    if row is None:
        raise NotFound(f"there is no refund {refund_id}")
    await _lock(tx, row)
    if status == "failed":
        return await fail_refund(tx, refund_id, failure or "failed")
    if status != "succeeded":
        if provider_id is not None:
            await payments.name_refund(tx, refund_id, provider_id)
        return "pending"
    settled = await payments.settle_refund(tx, refund_id, "succeeded", provider_id)
    if settled is not None:
        await payments.count_own_refunds(tx, row["payment_id"])
        if row["appointment_id"] is not None:
            await refresh(tx, row["appointment_id"])
    return "succeeded"


async def fail_refund(tx: Tx, refund_id: UUID, failure: str, *, at: datetime | None = None) -> str:
    """Record that the patient does not have the money, and notify the administrators. `at` is Stripe's time of it."""
    row = await payments.refund(tx, refund_id)
    if row is None:
        return "known"
    await _lock(tx, row)
    if await payments.return_refund(tx, refund_id, failure, at) is None:
        return "known"
    await payments.count_own_refunds(tx, row["payment_id"])
    if row["appointment_id"] is not None:
        await refresh(tx, row["appointment_id"])
    details = {"refund_id": str(refund_id), "amount": row["amount"], "currency": row["currency"], "failure": failure}
    await tx.notify_admins(
        "CLINIC_REFUND_FAILED", "error", "A refund failed; the patient does not have the money", details
    )
    return "failed"


async def _lock(tx: Tx, refund: Row) -> None:
    """Lock the appointment of a refund before its payment, as requests do: otherwise both may wait for each other."""
    if refund["appointment_id"] is not None:
        await appointments.get(tx, refund["appointment_id"], lock=True)


async def request_link(tx: Tx, appointment_id: UUID) -> int:
    """Request a payment page. A job opens it and sends the link to the patient. Return the number of the page.

    A page that was requested in the last minute is not followed by another one: the patient gets one link.
    """
    from onceward_apps.clinic import jobs

    row = await appointments.get(tx, appointment_id, lock=True)
    if row is None:
        raise NotFound(f"there is no appointment {appointment_id}")
    if row["price"] == 0:
        raise NotAllowed(f"appointment {appointment_id} costs nothing")
    if row["status"] not in (*OPEN, "in_progress", "completed"):
        raise NotAllowed(f"appointment {appointment_id} is {row['status']}: nothing is to be paid")
    if row["payment_status"] not in ("unpaid", "pending", "failed"):
        raise NotAllowed(f"the payment of appointment {appointment_id} is {row['payment_status']}")
    if row["payment_link_at"] is not None and await people.now(tx) - row["payment_link_at"] < LINK_PAUSE:
        return row["payment_links"]
    number = await appointments.next_payment_link(tx, appointment_id)
    await refresh(tx, appointment_id)
    await tx.enqueue(jobs.open_payment, appointment_id=appointment_id, number=number)
    return number


async def _refund_all(tx: Tx, row: Row, *, key: str, reason: str, by: str) -> None:
    left = await payments.refundable(tx, row["id"])
    if left > 0:
        await _request(tx, row, left, key=key, reason=reason, by=by)


async def _request(tx: Tx, row: Row, amount: int, *, key: str, reason: str, by: str) -> Row | None:
    from onceward_apps.clinic import jobs

    created = await payments.add_refund(tx, row["id"], amount, row["currency"], key=key, reason=reason, by=by)
    if created is not None:
        await tx.enqueue(jobs.refund_payment.unique(f"refund:{created['id']}", forever=True), refund_id=created["id"])
        await tx.audit(
            "refund.requested",
            entity_type="refund",
            entity_id=created["id"],
            metadata={"amount": amount, "currency": row["currency"], "reason": reason},
            actor=by,
        )
    return created


async def _alert(tx: Tx, title: str, received: Received, row: Row) -> None:
    details = {
        "payment_id": str(row["id"]),
        "payment_intent": received.intent,
        "amount": received.amount,
        "currency": received.currency,
        "appointment_id": None if received.appointment_id is None else str(received.appointment_id),
    }
    await tx.notify_admins("CLINIC_PAYMENT", "error", title, details)
