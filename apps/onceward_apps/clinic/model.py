"""Pure rules of the clinic: the states of an appointment and its payment, phone numbers, replies, refunds.

An appointment:

    scheduled ──confirm──▶ confirmed          both ──meeting_started──▶ in_progress ──meeting_ended──▶ completed
        ▲                      │              both ──cancel──▶ cancelled      both ──no_show──▶ no_show
        └──────reschedule──────┘              completed, no_show ──meeting_started──▶ in_progress (they came back, or late)

Every other trigger is refused or, if a webhook brings it, changes nothing.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal, get_args

from onceward_apps.clinic.errors import BadNumber

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


# -- phone numbers -----------------------------------------------------------------------------------------------------

_SEPARATORS = re.compile(r"[\s().\-/\u00a0\u2010-\u2015]+")
_PREFIX = re.compile(r"^(whatsapp:|tel:|sms:)", re.IGNORECASE)


def normalize_number(text: str, *, country_code: str | None = None, international: bool = False) -> str:
    """Return a number as `+` and digits. Raise `BadNumber` if it cannot be read.

    Providers write the country code without `+` (`international`). People may leave it out if the clinic has set one.
    """
    digits = _SEPARATORS.sub("", _PREFIX.sub("", text.strip()))
    if digits.startswith("+"):
        digits = digits[1:].removeprefix("(0)")
    elif digits.startswith("00"):
        digits = digits[2:]
    elif not international:
        if country_code is None:
            raise BadNumber(
                "the number has no country code: write it as + and digits, or set the clinic's country_code"
            )
        if digits.startswith("0"):
            digits = country_code + digits[1:]
        elif not (digits.startswith(country_code) and len(digits) >= 10):
            digits = country_code + digits
    if not re.fullmatch(r"[1-9][0-9]{6,14}", digits):
        raise BadNumber("the number must have 7 to 15 digits with the country code, such as +6591234567")
    return f"+{digits}"


def spellings(number: str) -> tuple[str, ...]:
    """Return a normalised number in the forms that payloads contain."""
    return (number, number[1:], f"whatsapp:{number}")


# -- replies -----------------------------------------------------------------------------------------------------------

Reply = Literal["confirm", "cancel", "stop", "start"]
WORDS: dict[Reply, frozenset[str]] = {
    "confirm": frozenset({"confirm", "confirmed", "yes", "y", "ok", "1", "confirmar", "confirmo", "sim", "s"}),
    "cancel": frozenset({"cancel", "cancel appointment", "no", "n", "2", "cancelar", "cancelo", "nao"}),
    "stop": frozenset({"stop", "stopall", "unsubscribe", "end", "quit", "optout", "parar", "sair"}),
    "start": frozenset({"start", "unstop", "subscribe", "iniciar", "voltar"}),
}


def read_reply(*texts: str) -> Reply | None:
    """Return what a person asks for: the exact word in English or Portuguese; case, accents and final marks do not count."""
    for text in texts:
        word = _plain(text)
        for reply, words in WORDS.items():
            if word in words:
                return reply
    return None


def _plain(text: str) -> str:
    decomposed = unicodedata.normalize("NFKD", text[:100]).casefold()
    kept = "".join(char for char in decomposed if not unicodedata.combining(char))
    return " ".join(kept.strip(" \t\r\n.!,;:'\"").split())


# -- reminders ---------------------------------------------------------------------------------------------------------


def due_reminder(*, starts_at: datetime, booked_at: datetime, now: datetime, hours: Sequence[int]) -> int | None:
    """Return the reminder (hours before the start) that is due now: the nearest one, or None.

    Who booked later than a reminder would have been sent does not get it.
    """
    due = [each for each in hours if booked_at <= starts_at - timedelta(hours=each) <= now < starts_at]
    return min(due, default=None)
