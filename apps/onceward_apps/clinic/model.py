"""Pure rules of the clinic: the states of an appointment and its payment, refunds, reminders.

An appointment:

    scheduled ──confirm──▶ confirmed          both ──meeting_started──▶ in_progress ──meeting_ended──▶ completed
        ▲                      │              both ──cancel──▶ cancelled      both ──no_show──▶ no_show
        └──────reschedule──────┘              completed, no_show ──meeting_started──▶ in_progress (they came back, or late)

Every other trigger is refused or, if a webhook brings it, changes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal, get_args

Status = Literal["scheduled", "confirmed", "in_progress", "completed", "cancelled", "no_show"]
STATUSES: tuple[Status, ...] = get_args(Status)
OPEN: tuple[Status, ...] = ("scheduled", "confirmed")
"""The states in which an appointment still lies ahead."""

Trigger = Literal["confirm", "cancel", "reschedule", "no_show", "meeting_started", "meeting_ended"]
TRIGGERS: tuple[Trigger, ...] = get_args(Trigger)

TRANSITIONS: dict[tuple[Status, Trigger], Status] = {
    ("scheduled", "confirm"): "confirmed",
    ("scheduled", "cancel"): "cancelled",
    ("confirmed", "cancel"): "cancelled",
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
Problem = Literal["unknown_appointment", "cancelled", "duplicate", "wrong_amount"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Payment:
    """A payment of an appointment, as far as its status needs it. Amounts are in minor units."""

    status: str
    amount: int | None
    refunded: int
    problem: str | None = None
    refund_pending: bool = False
    dispute: str | None = None
    """`open` while the patient's bank decides, then `won`, or `lost`: the patient has the money back."""


def payment_status(price: int, payments: Sequence[Payment], *, link_open: bool) -> PaymentStatus:
    """Return the payment status of an appointment. A payment with a problem never makes it paid."""
    received = [each for each in payments if each.status == "succeeded"]
    for each in received:
        if each.problem is None:
            return _received(each)
    for each in received:
        if each.problem == "wrong_amount" and each.refunded < (each.amount or 0):
            return "refund_pending" if each.refund_pending else "review"
    if price == 0:
        return "not_required"
    if received and all(each.refunded >= (each.amount or 0) for each in received):
        return "refunded"
    if any(each.status == "failed" for each in payments):
        return "failed"
    return "pending" if link_open else "unpaid"


def _received(payment: Payment) -> PaymentStatus:
    if payment.refunded >= (payment.amount or 0) > 0:
        return "refunded"
    if payment.dispute in ("open", "lost"):
        return "charged_back" if payment.dispute == "lost" else "disputed"
    if payment.refund_pending:
        return "refund_pending"
    return "partially_refunded" if payment.refunded else "paid"


def judge_payment(
    *, status: Status, price: int, currency: str, paid_already: bool, amount: int, paid_in: str
) -> Problem | None:
    """Return what is wrong with a payment of an appointment, or None."""
    if status == "cancelled":
        return "cancelled"
    if paid_already:
        return "duplicate"
    if amount != price or paid_in.upper() != currency:
        return "wrong_amount"
    return None


def refund_share(
    *, by: Literal["clinic", "patient"], starts_at: datetime, now: datetime, full_until: timedelta, late_percent: int
) -> int:
    """Return the percentage of the price that a cancellation gives back."""
    if by == "clinic" or now <= starts_at - full_until:
        return 100
    return late_percent


# -- reminders ---------------------------------------------------------------------------------------------------------


def due_reminder(*, starts_at: datetime, booked_at: datetime, now: datetime, hours: Sequence[int]) -> int | None:
    """Return the reminder (hours before the start) that is due now: the nearest one, or None.

    Who booked later than a reminder would have been sent does not get it.
    """
    due = [each for each in hours if booked_at <= starts_at - timedelta(hours=each) <= now < starts_at]
    return min(due, default=None)
