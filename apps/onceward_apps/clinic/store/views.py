"""What people look at: the day of a clinic, one appointment with everything about it, one patient."""

from __future__ import annotations

from datetime import date
from typing import Any, Protocol
from uuid import UUID

from onceward import Tx

Row = Any


class Reader(Protocol):
    """A transaction, a live query or a page's connection."""

    async def fetch(self, query: str, /, *args: Any) -> list[Any]: ...
    async def fetchrow(self, query: str, /, *args: Any) -> Any: ...
    async def fetchval(self, query: str, /, *args: Any) -> Any: ...


DAY = """
with zone as (select coalesce((select timezone from clinic.clinics where organization_id = $1), 'UTC') as name)
select a.id, a.organization_id, a.starts_at, a.duration_minutes, a.status, a.payment_status, a.price, a.currency,
       a.room_name, a.room_url, p.id as patient_id, p.name as patient_name,
       to_char(a.starts_at at time zone zone.name, 'HH24:MI') as local_time,
       coalesce((select array_agg(coalesce(x.user_name, 'somebody') order by x.joined_at)
                   from clinic.room_participants x
                  where x.organization_id = a.organization_id and x.room_name = a.room_name and x.left_at is null
                    and x.joined_at > onceward.now() - interval '1 day'), '{}') as present,
       (select s.kind || ' ' || s.state from clinic.message_states s
         where s.organization_id = a.organization_id and s.appointment_id = a.id and s.kind like 'reminder-%'
         order by s.message_id desc limit 1) as reminder
  from clinic.appointments a
  join zone on true
  join clinic.patients p on p.organization_id = a.organization_id and p.id = a.patient_id
 where a.organization_id = $1
   and a.starts_at >= ($2::date)::timestamp at time zone zone.name
   and a.starts_at < ($2::date + 1)::timestamp at time zone zone.name
 order by a.starts_at, a.id limit 500
"""
TODAY = """
select (onceward.now() at time zone coalesce((select timezone from clinic.clinics where organization_id = $1),
       'UTC'))::date
"""
APPOINTMENT = """
select a.*, p.name as patient_name, p.reference as patient_reference, p.phone, p.whatsapp, p.email,
       coalesce((select timezone from clinic.clinics c where c.organization_id = a.organization_id), 'UTC') as timezone
  from clinic.appointments a
  join clinic.patients p on p.organization_id = a.organization_id and p.id = a.patient_id
 where a.organization_id = $1 and a.id = $2
"""
HISTORY = """
select id, at, from_status, to_status, trigger, actor, caused_by from clinic.appointment_history
 where organization_id = $1 and appointment_id = $2 order by id
"""
PAYMENTS = """
select id, charge, status, amount, currency, received, refunded, decision, decided_reason, failure, created_at, paid_at,
       caused_by
  from onceward.payments where organization_id = $1 and subject_type = 'appointment' and subject_id = $2::uuid::text
 order by created_at, id
"""
REFUNDS = """
select r.id, r.payment_id, r.amount, r.currency, r.reason, r.status, r.failure, r.created_at
  from onceward.payments p join onceward.payment_refunds r on r.payment_id = p.id
 where p.organization_id = $1 and p.subject_type = 'appointment' and p.subject_id = $2::uuid::text
 order by r.created_at, r.id
"""
MESSAGES = """
select message_id, kind, channel, state, reason, created_at, sent_at from clinic.message_states
 where organization_id = $1 and appointment_id = $2 order by message_id
"""
INBOUND = """
select id, channel, kind, text, outcome, received_at, caused_by from clinic.inbound_messages
 where organization_id = $1 and appointment_id = $2 order by id
"""
PARTICIPANTS = """
select session_id, user_name, is_owner, joined_at, left_at, duration_s from clinic.room_participants
 where organization_id = $1 and room_name = $2 order by joined_at, session_id
"""
RECORDINGS = """
select recording_id, status, s3_key, duration_s, error, started_at from clinic.recordings
 where organization_id = $1 and room_name = $2 order by started_at, recording_id
"""

PAYMENT_PAGE = """
-- What a patient may see without a login, after the payment page.
select a.id, a.organization_id, a.price, a.currency, a.payment_status, a.payment_url, c.name as clinic,
       coalesce(p.locale, c.locale) as locale,
       a.status in ('scheduled', 'confirmed', 'in_progress', 'completed') as is_payable
  from clinic.appointments a
  join clinic.patients p on p.organization_id = a.organization_id and p.id = a.patient_id
  left join clinic.clinics c on c.organization_id = a.organization_id
 where a.organization_id = $1 and a.id = $2
"""


async def today(reader: Reader, organization: UUID | None) -> date:
    """Return the date on the clinic's clock."""
    return await reader.fetchval(TODAY, organization)


async def day(reader: Reader, organization: UUID | None, on: date) -> list[dict[str, Any]]:
    """List the appointments of a day in the clinic's time zone, with who is in the room now."""
    return [dict(row) for row in await reader.fetch(DAY, organization, on)]


async def appointment(reader: Reader, organization: UUID | None, id: UUID) -> dict[str, Any] | None:
    """Return an appointment with its history, payments, messages, people and recordings."""
    row = await reader.fetchrow(APPOINTMENT, organization, id)
    if row is None:
        return None
    room = row["room_name"]
    return {
        **dict(row),
        "history": _dicts(await reader.fetch(HISTORY, organization, id)),
        "payments": _dicts(await reader.fetch(PAYMENTS, organization, id)),
        "refunds": _dicts(await reader.fetch(REFUNDS, organization, id)),
        "messages": _dicts(await reader.fetch(MESSAGES, organization, id)),
        "replies": _dicts(await reader.fetch(INBOUND, organization, id)),
        "participants": _dicts(await reader.fetch(PARTICIPANTS, organization, room)) if room else [],
        "recordings": _dicts(await reader.fetch(RECORDINGS, organization, room)) if room else [],
    }


async def payment_page(reader: Tx, id: UUID) -> Row | None:
    """Return what the pages after a payment show."""
    return await reader.fetchrow(PAYMENT_PAGE, reader.organization, id)


async def appointments_of(reader: Reader, organization: UUID | None, patient_id: UUID) -> list[dict[str, Any]]:
    return _dicts(
        await reader.fetch(
            "select id, starts_at, status, payment_status, room_name from clinic.appointments"
            " where organization_id = $1 and patient_id = $2 order by starts_at",
            organization,
            patient_id,
        )
    )


async def counts(reader: Reader, organization: UUID | None) -> int:
    """Return the number of messages that wait for an answer."""
    return await reader.fetchval(
        "select count(*) from clinic.inbound_messages where organization_id = $1 and needs_answer"
        " and answered_at is null",
        organization,
    )


def _dicts(rows: list[Any]) -> list[dict[str, Any]]:
    return [dict(row) for row in rows]
