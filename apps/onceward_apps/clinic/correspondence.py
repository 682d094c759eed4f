"""What a person writes, and what the clinic answers. A message is stored once and answered at most once."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID, uuid4
from zoneinfo import ZoneInfo

from onceward import Event, Tx
from onceward.messages import (
    BadNumber,
    ChannelName,
    heard_from,
    opt_out,
    read_number,
    variants,
)
from onceward_apps.clinic import bookings, metrics
from onceward_apps.clinic.app import settings
from onceward_apps.clinic.errors import NotAllowed, NotFound
from onceward_apps.clinic.model import due_reminder
from onceward_apps.clinic.replies import CATEGORY, REPLY, Inbound, decide
from onceward_apps.clinic.store import appointments, conversations, people

Row = Any
REPLY_WITHIN = timedelta(hours=24)
"""WhatsApp allows an answer in free text for so long; an answer of yesterday helps nobody."""
SAME_TEXT = timedelta(minutes=1)
"""The same text within this time is the same request: a button may be pressed twice."""
TEXT_CHARACTERS = 4096
"""The longest text that WhatsApp allows. Of a longer one only the beginning is stored."""


async def receive(tx: Tx, event: Event[Any], inbound: Inbound) -> str:
    """Store a message, do what it asks for, answer it, and return what it caused."""
    message_id = await conversations.receive(
        tx,
        inbound.channel,
        inbound.provider_id,
        inbound.kind[:60],
        inbound.written[:TEXT_CHARACTERS],
    )
    if message_id is None:
        return "known"
    try:
        number = read_number(inbound.sender, international=True)
        number = await people.known_number(tx, variants(number)) or number
    except BadNumber:
        await conversations.decide(
            tx,
            message_id,
            contact_id=None,
            patient_id=None,
            appointment_id=None,
            outcome="bad_number",
            needs_answer=True,
        )
        return "bad_number"
    contact = await people.heard_from(tx, number)
    await bookings.save_contact(tx, number)
    await heard_from(tx, bookings.contact_ref(contact["id"]), at=inbound.sent_at)
    decision = await decide(tx, inbound, contact, await people.patients_of_number(tx, number))
    await conversations.decide(
        tx,
        message_id,
        contact_id=contact["id"],
        patient_id=decision.patient and decision.patient["id"],
        appointment_id=decision.appointment and decision.appointment["id"],
        outcome=decision.outcome,
        needs_answer=decision.needs_answer,
    )
    template, kind = decision.template, decision.kind
    if decision.needs_answer and await people.may_acknowledge(tx, contact["id"], settings().acknowledge_every):
        template, kind = "clinic.acknowledgement", REPLY
    if template is not None:
        sent = await send(
            tx,
            template,
            kind=kind,
            key=event.key("reply"),
            channel=inbound.channel,
            contact=contact,
            patient=decision.patient,
            appointment=decision.appointment,
            data=decision.data,
            within=REPLY_WITHIN,
        )
        await conversations.note_reply(tx, event.event_id, sent, message_id)
    metrics.INBOUND.labels(inbound.channel, decision.outcome).inc()
    return decision.outcome


async def stop(tx: Tx, number: str) -> None:
    """Send nothing more to a person, without an answer: to no form of the number that the clinic knows."""
    known = [each for each in variants(number) if await people.known_number(tx, [each]) is not None]
    for each in known or [number]:
        contact = await bookings.save_contact(tx, each)
        await opt_out(tx, bookings.contact_ref(contact["id"]), category=CATEGORY, source="reply")
        await people.set_opt_out(tx, contact["id"], True)


async def send(
    tx: Tx,
    template: str,
    *,
    kind: str,
    key: str,
    channel: ChannelName,
    contact: Row | None,
    patient: Row | None,
    appointment: Row | None,
    data: Mapping[str, Any] | None = None,
    expires_at: datetime | None = None,
    within: timedelta | None = None,
) -> int:
    """Queue a message to a contact, or to a patient's mail address, and record it. Return its id."""
    clinic = await people.clinic(tx)
    zone = clinic["timezone"] if clinic else "UTC"
    filled: dict[str, Any] = {
        "clinic": clinic["name"] if clinic else "",
        "patient": patient["name"] if patient else "",
        **(_moment(appointment["starts_at"], zone) if appointment else {}),
        **(data or {}),
    }
    if contact is not None:
        to = bookings.contact_ref(contact["id"])
    elif patient is not None:
        to = str(patient["id"])
    else:
        raise ValueError("a message needs a contact or a patient")
    locale = (patient and patient["locale"]) or (clinic and clinic["locale"]) or None
    queued = await tx.send(
        template,
        to=to,
        key=key,
        channel=channel,
        data=filled,
        locale=locale,
        expires_at=expires_at,
        within=within,
    )
    await conversations.note_sent(
        tx,
        queued.id,
        kind,
        key,
        contact_id=contact and contact["id"],
        patient_id=patient and patient["id"],
        appointment_id=appointment and appointment["id"],
    )
    return queued.id


def _moment(starts_at: datetime, zone: str) -> dict[str, str]:
    """Return the time of an appointment as the clinic's clock shows it."""
    local = starts_at.astimezone(ZoneInfo(zone))
    return {"day": local.date().isoformat(), "time": f"{local:%H:%M}", "zone": zone}


async def send_to_patient(
    tx: Tx,
    template: str,
    *,
    kind: str,
    key: str,
    patient: Row,
    appointment: Row,
    data: Mapping[str, Any] | None = None,
    expires_at: datetime | None = None,
) -> ChannelName | None:
    """Send a message over the best channel of a patient: WhatsApp, SMS, mail. Return it, or None if there is none."""
    channel: ChannelName
    contact = None
    if (number := patient["whatsapp"] or patient["phone"]) is not None:
        channel = "whatsapp" if patient["whatsapp"] else "sms"
        contact = await bookings.save_contact(tx, number)
    elif patient["email"] is not None:
        channel = "email"
    else:
        return None
    await send(
        tx,
        template,
        kind=kind,
        key=key,
        channel=channel,
        contact=contact,
        patient=patient,
        appointment=appointment,
        data=data,
        expires_at=expires_at,
    )
    return channel


async def remind(tx: Tx, appointment_id: UUID) -> str:
    """Queue the reminder that is due for an appointment, once. Return its kind or why there is none."""
    row = await bookings.appointment(tx, appointment_id, lock=True)
    await appointments.plan_next_reminder(tx, appointment_id, settings().reminders)
    if row["status"] not in ("scheduled", "confirmed"):
        return f"the appointment is {row['status']}"
    hours = due_reminder(
        starts_at=row["starts_at"],
        booked_at=row["booked_at"],
        now=await people.now(tx),
        hours=settings().reminders,
    )
    if hours is None:
        return "no reminder is due"
    key = f"clinic:{appointment_id}:reminder-{hours}h:{row['starts_at'].isoformat()}"
    if key in await conversations.reminder_keys(tx, appointment_id):
        return "the reminder exists"
    patient = await bookings.patient(tx, row["patient_id"])
    kind = f"reminder-{hours}h"
    channel = await send_to_patient(
        tx,
        "clinic.reminder",
        kind=kind,
        key=key,
        patient=patient,
        appointment=row,
        expires_at=row["starts_at"],
    )
    if channel is None:
        return "the patient has no number and no address"
    metrics.REMINDERS.labels(channel).inc()
    return kind


async def answer(tx: Tx, id: int, text: str | None, *, actor: str) -> Row:
    """Answer a message of the inbox with a text, or close it without one."""
    row = await conversations.answer(tx, id, actor)
    if row is None:
        if await conversations.inbound(tx, id) is None:
            raise NotFound(f"there is no message {id}")
        raise NotAllowed(f"message {id} waits for no answer")
    if text:
        contact = None if row["contact_id"] is None else await people.contact_by_id(tx, row["contact_id"])
        if contact is None:
            raise NotAllowed(f"message {id} has no number to answer to: close it without a text")
        patient = None if row["patient_id"] is None else await people.patient(tx, row["patient_id"])
        await send(
            tx,
            "clinic.answer",
            kind="answer",
            key=f"clinic:inbound:{id}:answer",
            channel=row["channel"],
            contact=contact,
            patient=patient,
            appointment=None,
            data={"text": text},
        )
    await tx.audit("message.answered", entity_type="inbound_message", entity_id=id, actor=actor)
    return row


async def write(tx: Tx, appointment_id: UUID, text: str, *, actor: str) -> ChannelName:
    """Send a text of the staff to the patient of an appointment, in the clinic's name. Return the channel."""
    row = await bookings.appointment(tx, appointment_id, lock=True)
    patient = await bookings.patient(tx, row["patient_id"])
    if await conversations.was_written(tx, appointment_id, text, SAME_TEXT):
        raise NotAllowed("the patient got this text less than a minute ago")
    channel = await send_to_patient(
        tx,
        "clinic.answer",
        kind="answer",
        key=f"clinic:{appointment_id}:written:{uuid4()}",
        patient=patient,
        appointment=row,
        data={"text": text},
    )
    if channel is None:
        raise NotAllowed("the patient has no number and no address: save one on the page of the patient")
    await tx.audit("appointment.written", entity_type="appointment", entity_id=appointment_id, actor=actor)
    return channel
