"""Pure rules of the clinic: the states of an appointment and its payment, refunds, reminders.

An appointment:

    scheduled ──confirm──▶ confirmed          both ──meeting_started──▶ in_progress ──meeting_ended──▶ completed
        ▲                      │              both ──cancel──▶ cancelled      both ──no_show──▶ no_show
        └──────reschedule──────┘              completed, no_show ──meeting_started──▶ in_progress (they came late)
        └───────────────────────restore, by staff────────────────────────────────── cancelled

Every other trigger is refused or, if a webhook brings it, changes nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from typing import Literal, get_args
from uuid import UUID

from onceward.payments import Payment

Status = Literal["scheduled", "confirmed", "in_progress", "completed", "cancelled", "no_show"]
STATUSES: tuple[Status, ...] = get_args(Status)
OPEN: tuple[Status, ...] = ("scheduled", "confirmed")
"""The states in which an appointment still lies ahead."""

Trigger = Literal["confirm", "cancel", "restore", "reschedule", "no_show", "meeting_started", "meeting_ended"]
TRIGGERS: tuple[Trigger, ...] = get_args(Trigger)

TRANSITIONS: dict[tuple[Status, Trigger], Status] = {
    ("scheduled", "confirm"): "confirmed",
    ("scheduled", "cancel"): "cancelled",
    ("confirmed", "cancel"): "cancelled",
    ("cancelled", "restore"): "scheduled",
    ("scheduled", "reschedule"): "scheduled",
    ("confirmed", "reschedule"): "scheduled",
    ("scheduled", "no_show"): "no_show",
    ("confirmed", "no_show"): "no_show",
    ("scheduled", "meeting_started"): "in_progress",
    ("confirmed", "meeting_started"): "in_progress",
    ("completed", "meeting_started"): "in_progress",
    ("no_show", "meeting_started"): "in_progress",
    ("in_progress", "meeting_ended"): "completed",
}


def transition(status: Status, trigger: Trigger) -> Status | None:
    """Return the next state, or None if the trigger does not apply."""
    return TRANSITIONS.get((status, trigger))


# -- payments ----------------------------------------------------------------------------------------------------------

PaymentStatus = Literal[
    "not_required",
    "unpaid",
    "pending",
    "failed",
    "paid",
    "review",
    "refund_pending",
    "partially_refunded",
    "refunded",
    "disputed",
    "charged_back",
]
UNFINISHED = ("requested", "sent", "pending")
"""The states of a refund that the patient does not have yet."""


def payment_status(price: int, payments: Sequence[Payment], refunding: Collection[UUID]) -> PaymentStatus:
    """Return the payment status of an appointment. `refunding` are the payments with a refund that has not ended.

    Only a payment that the clinic kept makes it paid: one that was returned bought nothing.
    """
    for each in payments:
        if is_kept(each):
            return _kept(each, each.id in refunding)
    payable = [each for each in payments if each.status in ("created", "open", "processing") and not each.is_superseded]
    if payable:
        return "failed" if payable[-1].failure and payable[-1].status != "processing" else "pending"
    if any(each.decision == "accepted" for each in payments):
        return "refunded"
    returned = [each for each in payments if each.decision == "returned"]
    if returned:
        return "refunded" if all(each.refunded >= each.received for each in returned) else "refund_pending"
    if price == 0:
        return "not_required"
    return "failed" if any(each.failure for each in payments) else "unpaid"


def is_kept(payment: Payment) -> bool:
    """Return whether the clinic accepted a payment and did not give all of it back."""
    return payment.decision == "accepted" and payment.refunded < payment.received


def _kept(payment: Payment, is_refunding: bool) -> PaymentStatus:
    if payment.status in ("disputed", "lost"):
        return "charged_back" if payment.status == "lost" else "disputed"
    if is_refunding:
        return "refund_pending"
    if not payment.is_exact:
        return "review"
    return "partially_refunded" if payment.refunded else "paid"


def refund_share(
    *, by: Literal["clinic", "patient"], starts_at: datetime, now: datetime, full_until: timedelta, late_percent: int
) -> int:
    """Return the percentage of the price that a cancellation gives back."""
    if by == "clinic" or now <= starts_at - full_until:
        return 100
    return late_percent


# -- answers -----------------------------------------------------------------------------------------------------------

Asked = Literal["attendance", "cancellation", "settled", "person", "nothing"]
"""What the last message to a person asked: whether they come, whether they want to cancel although it costs them
something, nothing more because their answer was carried out, or what a member of the staff wrote."""
Answer = Literal["confirm", "cancel", "yes", "no"]
Meaning = Literal["confirm", "cancel", "cancel_now", "keep", "unclear"]
"""`cancel_now` is the answer to the question that named the price."""

MEANINGS: dict[tuple[Asked, Answer], Meaning] = {
    ("nothing", "confirm"): "confirm",
    ("nothing", "cancel"): "cancel",
    ("attendance", "confirm"): "confirm",
    ("attendance", "yes"): "confirm",
    ("attendance", "cancel"): "cancel",
    ("attendance", "no"): "cancel",
    ("cancellation", "cancel"): "cancel_now",
    ("cancellation", "yes"): "cancel_now",
    ("cancellation", "no"): "keep",
    ("settled", "confirm"): "confirm",
    ("settled", "yes"): "confirm",
    ("settled", "cancel"): "cancel",
}
"""Everything else is unclear, and a member of the staff answers: a "no" to a nurse's question cancels nothing."""


def meaning(asked: Asked, answer: Answer) -> Meaning:
    return MEANINGS.get((asked, answer), "unclear")


def asked_by(kind: str) -> Asked:
    """Return what a message of ours asks, by its kind."""
    if kind.startswith("reminder-"):
        return "attendance"
    match kind:
        case "cancel-question":
            return "cancellation"
        case "confirmed" | "cancelled" | "kept":
            return "settled"
        case "answer":
            return "person"
        case _:
            return "nothing"


# -- reminders ---------------------------------------------------------------------------------------------------------


def due_reminder(*, starts_at: datetime, booked_at: datetime, now: datetime, hours: Sequence[int]) -> int | None:
    """Return the reminder (hours before the start) that is due now: the nearest one, or None.

    Who booked later than a reminder would have been sent does not get it.
    """
    due = [each for each in hours if booked_at <= starts_at - timedelta(hours=each) <= now < starts_at]
    return min(due, default=None)
