"""What a message of a person means, and what it does to an appointment.

STOP, START, HELP, CONFIRM and CANCEL say what they ask for. Yes and no count only as the answer to a question of ours:
to the message that the person quoted, or else to the newest one that they got. What is unclear waits for the staff.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import takewhile
from typing import Any, Literal, assert_never
from uuid import UUID

from onceward import Tx
from onceward.messages import Reply, opt_in, opt_out, read_reply
from onceward_apps.clinic import bookings
from onceward_apps.clinic.app import settings
from onceward_apps.clinic.model import Answer, Asked, asked_by, meaning
from onceward_apps.clinic.store import appointments, conversations, people

Row = Any
CATEGORY = "clinic"
"""The category that STOP ends. Only the confirmation of STOP itself is of another one."""
ACTOR = "patient"
REPLY = "reply"
"""The kind of automatic answers that ask nothing and end nothing, such as an acknowledgement."""
ANSWERS: tuple[Reply, ...] = ("stop", "start", "help", "confirm", "cancel", "yes", "no")


@dataclass(frozen=True, slots=True, kw_only=True)
class Inbound:
    """One message from a person. `quoted` is the provider's id of the message that it answers."""

    channel: Literal["whatsapp", "sms"]
    provider_id: str
    sender: str
    kind: str
    written: str
    """What the person sees as their message."""
    answers: tuple[str, ...]
    """What may be an answer: ids of buttons first."""
    sent_at: datetime
    quoted: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What a message means. Without a `template` nothing is answered automatically."""

    outcome: str
    template: str | None = None
    patient: Row | None = None
    appointment: Row | None = None
    needs_answer: bool = False
    kind: str = REPLY
    """The kind under which the answer is recorded. It says what the answer asks: see `model.asked_by`."""
    data: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Question:
    """What a person answers: what was asked, and about which appointments. Empty: the message named none."""

    asked: Asked
    about: Collection[UUID] = ()


async def decide(tx: Tx, inbound: Inbound, contact: Row, patients: Sequence[Row]) -> Decision:
    """Do what a message asks for, and return what it caused. `patients` are those with the number of the person."""
    patient = patients[0] if len(patients) == 1 else None
    ref = bookings.contact_ref(contact["id"])
    match read_reply(*inbound.answers, allowed=ANSWERS):
        case "stop":
            await opt_out(tx, ref, category=CATEGORY, source="reply", wording=inbound.written)
            await people.set_opt_out(tx, contact["id"], True)
            return Decision(outcome="opted_out", template="clinic.opted_out", patient=patient)
        case "start":
            await opt_in(tx, ref, category=CATEGORY, source="reply", wording=inbound.written)
            await people.set_opt_out(tx, contact["id"], False)
            return Decision(outcome="opted_in", template="clinic.opted_in", patient=patient)
        case "help":
            return Decision(outcome="helped", template="clinic.help", patient=patient)
        case "confirm" | "cancel" | "yes" | "no" as answer:
            return await _decide_answer(tx, inbound, answer, contact, patients)
        case _:
            outcome = "unanswered" if patient else "ambiguous_patient" if patients else "unknown_patient"
            return Decision(outcome=outcome, patient=patient, needs_answer=True)


async def _decide_answer(tx: Tx, inbound: Inbound, answer: Answer, contact: Row, patients: Sequence[Row]) -> Decision:
    """Confirm, cancel or keep the one appointment that is meant. If several may be meant, the staff decides."""
    patient = patients[0] if len(patients) == 1 else None
    if not patients:
        return Decision(outcome="unknown_patient", needs_answer=True)
    question = await _question(tx, inbound, contact)
    meant = meaning(question.asked, answer)
    if meant == "unclear":
        return Decision(outcome="unclear", patient=patient, needs_answer=True)
    candidates = await appointments.upcoming(tx, [each["id"] for each in patients])
    if question.about:
        candidates = [each for each in candidates if each["id"] in question.about]
    if len(candidates) > 1:
        return Decision(outcome="ambiguous_appointment", patient=patient, needs_answer=True)
    if not candidates:
        cancelled = await _just_cancelled(tx, question) if meant in ("cancel", "cancel_now") else None
        if cancelled is not None:
            return _settled("already_cancelled", "cancelled", patient, cancelled)
        return Decision(outcome="no_appointment", patient=patient, needs_answer=True)
    [row] = candidates
    patient = next(each for each in patients if each["id"] == row["patient_id"])
    match meant:
        case "confirm":
            changed = await bookings.apply(tx, row["id"], "confirm", actor=ACTOR)
            return _settled("confirmed" if changed else "already_confirmed", "confirmed", patient, changed or row)
        case "keep":
            return _settled("kept", "kept", patient, row)
        case "cancel":
            return await _ask_about_fee(tx, patient, row) or await _cancel(tx, patient, row)
        case "cancel_now":
            return await _cancel(tx, patient, row)
        case _:
            assert_never(meant)


async def _ask_about_fee(tx: Tx, patient: Row, row: Row) -> Decision | None:
    """Ask once more if the cancellation costs the patient something. The question says how much."""
    from onceward_apps.clinic import payments

    fee = await payments.cancellation_fee(tx, row)
    if fee == 0:
        return None
    return Decision(
        outcome="asked_about_fee",
        template="clinic.cancel_question",
        kind="cancel-question",
        patient=patient,
        appointment=row,
        data={"amount": fee, "currency": row["currency"]},
    )


async def _cancel(tx: Tx, patient: Row, row: Row) -> Decision:
    changed = await bookings.cancel(tx, row["id"], by="patient", reason="reply of the patient", actor=ACTOR)
    return _settled("cancelled", "cancelled", patient, changed)


def _settled(outcome: str, kind: Literal["confirmed", "cancelled", "kept"], patient: Row | None, row: Row) -> Decision:
    return Decision(outcome=outcome, template=f"clinic.{kind}", kind=kind, patient=patient, appointment=row)


async def _question(tx: Tx, inbound: Inbound, contact: Row) -> Question:
    """Return what a message answers. A message that was written before ours is not an answer to it."""
    if inbound.quoted is not None:
        quoted = await conversations.by_reference(tx, inbound.quoted)
        if quoted is None:  # Somebody wrote it with another tool, or the patient quotes a message of their own.
            return Question("person")
        return Question(asked_by(quoted["kind"]), _named(quoted))
    within = timedelta(hours=settings().answer_hours)
    recent = await conversations.recently_sent(tx, contact["id"], inbound.sent_at, within)
    if not recent:
        return Question("nothing")
    asked = asked_by(recent[0]["kind"])
    if asked != "attendance":
        return Question(asked, _named(recent[0]))
    # Reminders of several appointments came one after the other: the answer may be to each of them.
    together = takewhile(lambda row: asked_by(row["kind"]) == "attendance", recent)
    return Question(asked, {id for row in together for id in _named(row)})


def _named(row: Row) -> tuple[UUID, ...]:
    return () if row["appointment_id"] is None else (row["appointment_id"],)


async def _just_cancelled(tx: Tx, question: Question) -> Row | None:
    """Return the appointment of the question, if the patient has cancelled it: they asked twice."""
    if len(question.about) != 1:
        return None
    [id] = question.about
    row = await appointments.get(tx, id)
    return row if row is not None and row["status"] == "cancelled" and row["cancelled_by"] == "patient" else None
