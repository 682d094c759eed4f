"""Patients and appointments: create, move, confirm, cancel. Each change is one transaction with everything it
causes."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal
from uuid import UUID, uuid4
from zoneinfo import ZoneInfo

import asyncpg

from onceward import Tx
from onceward.messages import BadNumber, Recipient, read_number, save_recipient
from onceward_apps.clinic.errors import BadInput, NotAllowed, NotFound
from onceward_apps.clinic.model import OPEN, Trigger, transition
from onceward_apps.clinic.store import appointments, conversations, doctors, people, rooms

Row = Any
EMAIL = re.compile(r"^[^@\s]+@[^@\s]+\.[^@\s]+$")
PATIENT = ("reference", "name", "phone", "whatsapp", "email", "locale", "erased_at")
"""The columns of a patient that a request can change."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PatientData:
    """What a clinic knows about a patient. None keeps what is stored."""

    name: str
    reference: str | None = None
    phone: str | None = None
    whatsapp: str | None = None
    email: str | None = None
    locale: str | None = None


def contact_ref(contact_id: UUID) -> str:
    """Return the name under which messages know a contact."""
    return f"contact:{contact_id}"


async def save_clinic(tx: Tx, *, name: str, timezone: str, locale: str, country_code: str | None, actor: str) -> Row:
    try:
        ZoneInfo(timezone)
    except (KeyError, ValueError, OSError):
        raise BadInput(f"timezone {timezone!r} is unknown: use an IANA name such as Asia/Singapore") from None
    row = await people.save_clinic(tx, name=name, timezone=timezone, locale=locale, country_code=country_code)
    if row is None:
        return await people.clinic(tx)
    await tx.audit("clinic.saved", entity_type="clinic", entity_id=tx.organization, actor=actor)
    return row


def _number(field: str, text: str | None, country_code: str | None) -> str | None:
    try:
        return None if text is None else read_number(text, country_code=country_code)
    except BadNumber as error:
        raise BadInput(f"{field}: {error}") from error


async def save_patient(tx: Tx, id: UUID | None, data: PatientData, *, actor: str) -> Row:
    """Create a patient, or change the one with this id. Numbers are normalised, so five spellings are one contact."""
    clinic = await people.clinic(tx)
    country = clinic["country_code"] if clinic else None
    if data.email is not None and not EMAIL.match(data.email):
        raise BadInput("email must be an address such as ann@example.com")
    patient_id = id or uuid4()
    before = None if id is None else await people.patient(tx, id, lock=True)
    try:
        row = await people.save_patient(
            tx,
            patient_id,
            reference=data.reference,
            name=data.name,
            phone=_number("phone", data.phone, country),
            whatsapp=_number("whatsapp", data.whatsapp, country),
            email=data.email,
            locale=data.locale,
        )
    except asyncpg.UniqueViolationError as error:
        raise NotAllowed("another patient of the clinic has this reference: use a different one") from error
    await save_recipient(tx, Recipient(ref=str(patient_id), email=row["email"], locale=row["locale"]))
    if before is None or any(before[name] != row[name] for name in PATIENT):
        await tx.audit("patient.saved", entity_type="patient", entity_id=patient_id, actor=actor)
    return row


async def save_contact(tx: Tx, number: str) -> Row:
    """Return the contact of a number, known to messages under its own name."""
    contact = await people.contact(tx, number)
    await save_recipient(tx, Recipient(ref=contact_ref(contact["id"]), phone=number, whatsapp=number))
    return contact


async def patient(tx: Tx, id: UUID) -> Row:
    row = await people.patient(tx, id)
    if row is None:
        raise NotFound(f"there is no patient {id}")
    return row


async def appointment(tx: Tx, id: UUID, *, lock: bool = False) -> Row:
    row = await appointments.get(tx, id, lock=lock)
    if row is None:
        raise NotFound(f"there is no appointment {id}")
    return row


async def create(
    tx: Tx,
    patient_id: UUID,
    starts_at: datetime,
    *,
    duration_minutes: int = 30,
    price: int = 0,
    currency: str = "USD",
    doctor: str | None = None,
    id: UUID | None = None,
    actor: str,
) -> Row:
    """Create an appointment. The same id twice is one appointment; a patient and a doctor have one at a time."""
    _check_time(starts_at)
    known = await patient(tx, patient_id)
    if known["erased_at"] is not None:
        raise NotAllowed(f"patient {patient_id} was erased: create a new patient")
    appointment_id = id or uuid4()
    doctor_id = None if doctor is None else (await doctors.named(tx, doctor))["id"]
    if id is None or await appointments.get(tx, id) is None:
        await check_doctor(tx, doctor_id, starts_at, duration_minutes)
    row = await appointments.add(
        tx,
        appointment_id,
        patient_id,
        starts_at=starts_at,
        duration_minutes=duration_minutes,
        price=price,
        currency=currency.upper(),
        doctor_id=doctor_id,
    )
    if row is None:
        known = await appointments.get(tx, appointment_id)
        if known is None and await appointments.is_booked(tx, patient_id, starts_at):
            raise NotAllowed(f"patient {patient_id} has an appointment at {starts_at} already")
        return await appointment(tx, appointment_id)
    await appointments.note(tx, row["id"], None, row["status"], "create", actor)
    await tx.audit("appointment.created", entity_type="appointment", entity_id=row["id"], actor=actor)
    await announce(tx, "appointment.created", row, "create")
    return row


async def apply(tx: Tx, id: UUID, trigger: Trigger, *, actor: str) -> Row | None:
    """Move an appointment to its next state. Return None if the trigger does not apply in its state."""
    row = await appointment(tx, id, lock=True)
    following = transition(row["status"], trigger)
    if following is None:
        return None
    changed = await appointments.set_status(tx, id, following)
    await appointments.note(tx, id, row["status"], following, trigger, actor)
    await tx.audit(
        f"appointment.{trigger}",
        entity_type="appointment",
        entity_id=id,
        changes={"status": [row["status"], following]},
        actor=actor,
    )
    await announce(tx, "appointment.updated", changed, trigger)
    return changed


async def demand(tx: Tx, id: UUID, trigger: Trigger, *, actor: str) -> Row:
    """Move an appointment to its next state, or raise `NotAllowed`."""
    changed = await apply(tx, id, trigger, actor=actor)
    if changed is None:
        row = await appointment(tx, id)
        raise NotAllowed(f"appointment {id} is {row['status']}: {trigger.replace('_', ' ')} is not possible")
    return changed


async def reschedule(tx: Tx, id: UUID, starts_at: datetime, *, duration_minutes: int | None = None, actor: str) -> Row:
    """Move an appointment to another time. Reminders of the old time are withdrawn, and the room gets new times.

    An appointment that has this time already stays as it is.
    """
    _check_time(starts_at)
    before = await appointment(tx, id, lock=True)
    if before["status"] in OPEN and (starts_at, duration_minutes or before["duration_minutes"]) == (
        before["starts_at"],
        before["duration_minutes"],
    ):
        return before
    await check_doctor(tx, before["doctor_id"], starts_at, duration_minutes or before["duration_minutes"], besides=id)
    await demand(tx, id, "reschedule", actor=actor)
    await withdraw_reminders(tx, id, "rescheduled")
    try:
        row = await appointments.move(tx, id, starts_at, duration_minutes)
    except asyncpg.UniqueViolationError as error:
        raise NotAllowed(f"the patient has another appointment at {starts_at}") from error
    if row["room_name"] is not None:
        await request_room(tx, id)
    return row


async def cancel(tx: Tx, id: UUID, *, by: Literal["clinic", "patient"], reason: str, actor: str) -> Row:
    """Cancel an appointment: withdraw its reminders, refund by policy, delete its room."""
    row = await demand(tx, id, "cancel", actor=actor)
    await appointments.set_cancellation(tx, id, by, reason)
    await withdraw_reminders(tx, id, "cancelled")
    from onceward_apps.clinic import jobs, payments

    share = await payments.share_returned(tx, row, by=by)
    key = await payments.cancellation_key(tx, id)
    await payments.end_cancelled(tx, id, share_percent=share, key=key, actor=actor)
    if row["room_name"] is not None:
        await tx.enqueue(
            jobs.delete_room.unique(f"room:{row['room_name']}:delete", forever=True), room_name=row["room_name"]
        )
    return await appointment(tx, id)


async def request_room(tx: Tx, id: UUID, *, replace: bool = False) -> str:
    """Request a video room for an appointment, and return its name.

    The name is chosen here, so a repeat finds the room. With `replace` it is a new one: the old one is being deleted.
    """
    from onceward_apps.clinic import jobs

    row = await appointment(tx, id, lock=True)
    if row["status"] not in (*OPEN, "in_progress"):
        raise NotAllowed(f"appointment {id} is {row['status']}: it needs no room")
    name = row["room_name"] or f"clinic-{id.hex}"
    if replace:
        name = f"clinic-{id.hex}-{await rooms.count_of(tx, id) + 1}"
    await rooms.seen(tx, name, id)
    await appointments.set_room(tx, id, name, None)
    await tx.enqueue(jobs.create_room, appointment_id=id)
    return name


async def withdraw_reminders(tx: Tx, id: UUID, reason: str) -> None:
    """Cancel the reminders of an appointment that are still queued."""
    for key in await conversations.reminder_keys(tx, id):
        await tx.cancel_message(key, reason=reason)


async def announce(tx: Tx, type: str, row: Row, trigger: str) -> None:
    """Publish a change to the clinic's endpoints, and to browsers."""
    await tx.publish(
        type,
        {
            "appointment_id": row["id"],
            "organization_id": row["organization_id"],
            "status": row["status"],
            "payment_status": row["payment_status"],
            "starts_at": row["starts_at"],
            "trigger": trigger,
        },
    )


def _check_time(starts_at: datetime) -> None:
    if starts_at.tzinfo is None:
        raise BadInput("starts_at has no time zone: write it as 2026-11-20T09:00:00+08:00")


async def check_doctor(
    tx: Tx, doctor_id: UUID | None, starts_at: datetime, minutes: int, *, besides: UUID | None = None
) -> None:
    """Refuse a time that the doctor has given to another patient. The doctor stays locked until the commit."""
    if doctor_id is None:
        return
    await doctors.lock(tx, doctor_id)
    taken = await doctors.overlapping(tx, doctor_id, starts_at, minutes, besides=besides)
    if taken is not None:
        raise NotAllowed(
            f"the doctor has an appointment at {taken['starts_at']:%Y-%m-%d %H:%M} UTC: choose another time"
        )
