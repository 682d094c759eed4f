"""Messages from people, and what the clinic sent."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from onceward import Tx

Row = Any

RECEIVE = """
insert into clinic.inbound_messages (channel, provider_id, kind, text) values ($1, $2, $3, $4)
on conflict (organization_id, channel, provider_id) do nothing
returning id
"""
DECIDE = """
update clinic.inbound_messages
   set contact_id = $2, patient_id = $3, appointment_id = $4, outcome = $5, needs_answer = $6
 where id = $1
"""
UNANSWERED = """
select i.id, i.channel, i.kind, i.text, i.outcome, i.received_at, i.patient_id, i.appointment_id, i.contact_id,
       c.number,
       p.name as patient_name, i.caused_by
  from clinic.inbound_messages i
  left join clinic.contacts c on c.id = i.contact_id
  left join clinic.patients p on p.organization_id = i.organization_id and p.id = i.patient_id
 where i.organization_id is not distinct from coalesce($1, i.organization_id) and i.needs_answer
   and i.answered_at is null
 order by i.id limit $2
"""
ANSWER = """
update clinic.inbound_messages set answered_at = onceward.now(), answered_by = $2
 where id = $1 and needs_answer and answered_at is null returning *
"""
NOTE_SENT = """
insert into clinic.outgoing (message_id, kind, key, contact_id, patient_id, appointment_id)
values ($1, $2, $3, $4, $5, $6)
on conflict (message_id) do nothing
"""
# Which of our messages a person quotes.
BY_REFERENCE = """
select o.kind, o.appointment_id from onceward.messages m join clinic.outgoing o on o.message_id = m.id
 where m.reference = $1
"""
RECENTLY_SENT = """
-- What a person got before a moment, the newest first. A few rows of one contact, however long the conversation is.
with newest as (
    select message_id, kind, appointment_id from clinic.outgoing
     where organization_id = onceward.organization() and contact_id = $1 order by message_id desc limit 50
)
select n.kind, n.appointment_id
  from newest n join onceward.messages m on m.id = n.message_id
 where n.kind <> 'reply' and m.status in ('processing', 'success', 'unknown')
   and date_trunc('second', coalesce(m.sent_at, m.created_at)) between $2::timestamptz - $3::interval and $2
 order by coalesce(m.sent_at, m.created_at) desc, n.message_id desc
"""
JUST_WRITTEN = """
select exists (
    select from clinic.outgoing o join onceward.messages m on m.id = o.message_id
     where o.organization_id = onceward.organization() and o.appointment_id = $1 and o.kind = 'answer'
       and m.data->>'text' = $2 and o.created_at > onceward.now() - $3::interval)
"""
QUEUED_REMINDERS = """
select key from clinic.outgoing where appointment_id = $1 and kind like 'reminder-%'
"""


async def receive(tx: Tx, channel: str, provider_id: str, kind: str, text: str) -> int | None:
    """Store a message. Return None if it was stored before."""
    return await tx.fetchval(RECEIVE, channel, provider_id, kind, text)


async def decide(
    tx: Tx,
    id: int,
    *,
    contact_id: UUID | None,
    patient_id: UUID | None,
    appointment_id: UUID | None,
    outcome: str,
    needs_answer: bool,
) -> None:
    await tx.execute(DECIDE, id, contact_id, patient_id, appointment_id, outcome, needs_answer)


async def unanswered(reader: Any, organization: UUID | None, *, limit: int) -> list[Row]:
    return await reader.fetch(UNANSWERED, organization, limit)


async def inbound(tx: Tx, id: int) -> Row | None:
    return await tx.fetchrow("select * from clinic.inbound_messages where id = $1", id)


async def answer(tx: Tx, id: int, by: str) -> Row | None:
    """Mark a message as answered. Return None if it waits for no answer."""
    return await tx.fetchrow(ANSWER, id, by)


async def note_sent(
    tx: Tx,
    message_id: int,
    kind: str,
    key: str,
    *,
    contact_id: UUID | None,
    patient_id: UUID | None,
    appointment_id: UUID | None,
) -> None:
    await tx.execute(NOTE_SENT, message_id, kind, key, contact_id, patient_id, appointment_id)


async def note_reply(tx: Tx, event_id: str, message_id: int, inbound_id: int) -> None:
    await tx.execute(
        "insert into clinic.replies (event_id, message_id, inbound_id) values ($1, $2, $3)",
        event_id,
        message_id,
        inbound_id,
    )


async def was_written(tx: Tx, appointment_id: UUID, text: str, within: timedelta) -> bool:
    """Whether the staff has sent this text about an appointment a moment ago. The row of the appointment is locked."""
    return await tx.fetchval(JUST_WRITTEN, appointment_id, text, within)


async def by_reference(tx: Tx, reference: str) -> Row | None:
    return await tx.fetchrow(BY_REFERENCE, reference)


async def recently_sent(tx: Tx, contact_id: UUID, before: datetime, within: timedelta) -> list[Row]:
    return await tx.fetch(RECENTLY_SENT, contact_id, before, within)


async def reminder_keys(tx: Tx, appointment_id: UUID) -> list[str]:
    return [row["key"] for row in await tx.fetch(QUEUED_REMINDERS, appointment_id)]


async def sent(tx: Tx, message_id: int) -> Row | None:
    return await tx.fetchrow("select * from clinic.outgoing where message_id = $1", message_id)
