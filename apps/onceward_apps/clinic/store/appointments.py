"""Appointments and their history."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from onceward import Tx

Row = Any

ADD = """
insert into clinic.appointments
    (id, patient_id, starts_at, duration_minutes, price, currency, doctor_id, payment_status)
values ($1, $2, $3, $4, $5::bigint, $6, $7, case when $5::bigint = 0 then 'not_required' else 'unpaid' end)
on conflict do nothing
returning *
"""
SET_STATUS = """
update clinic.appointments set status = $2, status_changed_at = onceward.now() where id = $1 returning *
"""
MOVE = """
update clinic.appointments
   set starts_at = $2, duration_minutes = coalesce($3, duration_minutes), booked_at = onceward.now(),
       reminder_plan = '', next_reminder_at = null
 where id = $1 returning *
"""
NOTE = """
insert into clinic.appointment_history (appointment_id, from_status, to_status, trigger, actor)
values ($1, $2, $3, $4, $5)
"""
UPCOMING = """
select a.* from clinic.appointments a
 where a.patient_id = any($1::uuid[]) and a.status in ('scheduled', 'confirmed') and a.starts_at > onceward.now()
 order by a.starts_at, a.id
"""
NEXT_REMINDER = """
update clinic.appointments a
   set next_reminder_at = (select min(a.starts_at - make_interval(hours => hour)) from unnest($2::int[]) hour
                            where a.starts_at - make_interval(hours => hour) > onceward.now())
 where a.id = $1
"""
SET_MEETING = """
update clinic.appointments a
   set meeting_started_at = m.started_at, meeting_ended_at = m.ended_at
  from (select min(started_at) as started_at,
               case when bool_and(ended_at is not null) then max(ended_at) end as ended_at
          from clinic.meetings where room_name = $2) m
 where a.id = $1
"""


async def add(
    tx: Tx,
    id: UUID,
    patient_id: UUID,
    *,
    starts_at: datetime,
    duration_minutes: int,
    price: int,
    currency: str,
    doctor_id: UUID | None,
) -> Row | None:
    """Create an appointment. Return None if this id exists, or the patient has an appointment at this time."""
    return await tx.fetchrow(ADD, id, patient_id, starts_at, duration_minutes, price, currency, doctor_id)


async def get(tx: Tx, id: UUID, *, lock: bool = False) -> Row | None:
    return await tx.fetchrow(f"select * from clinic.appointments where id = $1{' for update' if lock else ''}", id)


async def is_booked(tx: Tx, patient_id: UUID, starts_at: datetime) -> bool:
    """Whether the patient has an appointment ahead at this time."""
    return await tx.fetchval(
        "select exists (select from clinic.appointments where organization_id = onceward.organization()"
        " and patient_id = $1 and starts_at = $2 and status in ('scheduled', 'confirmed'))",
        patient_id,
        starts_at,
    )


async def set_status(tx: Tx, id: UUID, status: str) -> Row:
    return await tx.fetchrow(SET_STATUS, id, status)


async def move(tx: Tx, id: UUID, starts_at: datetime, duration_minutes: int | None) -> Row:
    return await tx.fetchrow(MOVE, id, starts_at, duration_minutes)


async def note(tx: Tx, id: UUID, from_status: str | None, to_status: str, trigger: str, actor: str) -> None:
    await tx.execute(NOTE, id, from_status, to_status, trigger, actor)


async def set_cancellation(tx: Tx, id: UUID, by: str, reason: str) -> None:
    await tx.execute(
        "update clinic.appointments set cancelled_by = $2, cancellation_reason = $3 where id = $1", id, by, reason
    )


async def clear_cancellation(tx: Tx, id: UUID) -> Row:
    return await tx.fetchrow(
        "update clinic.appointments set cancelled_by = null, cancellation_reason = null, room_url = null,"
        " reminder_plan = '', next_reminder_at = null"
        " where id = $1 returning *",
        id,
    )


async def cancelled_at(tx: Tx, id: UUID) -> datetime:
    """Return when an appointment was cancelled for the last time."""
    return await tx.fetchval(
        "select at from clinic.appointment_history where organization_id = onceward.organization()"
        " and appointment_id = $1 and trigger = 'cancel' order by id desc limit 1",
        id,
    )


async def count_cancellations(tx: Tx, id: UUID) -> int:
    """Return how often an appointment was cancelled: it can be restored."""
    return await tx.fetchval(
        "select count(*) from clinic.appointment_history"
        " where organization_id = onceward.organization() and appointment_id = $1 and trigger = 'cancel'",
        id,
    )


async def upcoming(tx: Tx, patient_ids: Sequence[UUID]) -> list[Row]:
    return await tx.fetch(UPCOMING, list(patient_ids))


async def plan_next_reminder(tx: Tx, id: UUID, hours: Sequence[int]) -> None:
    """Set the time of the first reminder that is not due yet."""
    await tx.execute(NEXT_REMINDER, id, list(hours))


async def set_room(tx: Tx, id: UUID, name: str, url: str | None) -> None:
    await tx.execute(
        "update clinic.appointments set room_name = $2, room_url = coalesce($3, room_url) where id = $1", id, name, url
    )


async def set_payment_url(tx: Tx, id: UUID, url: str | None) -> None:
    await tx.execute("update clinic.appointments set payment_url = $2 where id = $1", id, url)


async def count_payment_link(tx: Tx, id: UUID) -> int:
    """Count a link that is sent, and return how many were."""
    return await tx.fetchval(
        "update clinic.appointments set payment_links = payment_links + 1, payment_link_at = onceward.now()"
        " where id = $1 returning payment_links",
        id,
    )


async def set_payment_status(tx: Tx, id: UUID, status: str) -> Row:
    """Store the payment status, and return the appointment."""
    return await tx.fetchrow("update clinic.appointments set payment_status = $2 where id = $1 returning *", id, status)


async def set_meeting(tx: Tx, id: UUID, room_name: str) -> None:
    """Copy the first start and the last end of the meetings of the room to the appointment."""
    await tx.execute(SET_MEETING, id, room_name)
