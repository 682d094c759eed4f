"""Messages from people, and what the clinic sent."""

from __future__ import annotations

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
select i.id, i.channel, i.kind, i.text, i.outcome, i.received_at, i.patient_id, i.appointment_id, i.contact_id, c.number,
       p.name as patient_name, i.caused_by
  from clinic.inbound_messages i
  left join clinic.contacts c on c.id = i.contact_id
  left join clinic.patients p on p.organization_id = i.organization_id and p.id = i.patient_id
 where i.organization_id is not distinct from coalesce($1, i.organization_id) and i.needs_answer and i.answered_at is null
 order by i.id limit $2
"""
ANSWER = """
update clinic.inbound_messages set answered_at = onceward.now(), answered_by = $2
 where id = $1 and needs_answer and answered_at is null returning *
"""
NOTE_SENT = """
insert into clinic.outgoing (message_id, kind, key, contact_id, patient_id, appointment_id) values ($1, $2, $3, $4, $5, $6)
on conflict (message_id) do nothing
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


async def reminder_keys(tx: Tx, appointment_id: UUID) -> list[str]:
    return [row["key"] for row in await tx.fetch(QUEUED_REMINDERS, appointment_id)]


async def sent(tx: Tx, message_id: int) -> Row | None:
    return await tx.fetchrow("select * from clinic.outgoing where message_id = $1", message_id)
