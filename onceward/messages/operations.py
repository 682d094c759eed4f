"""Operator actions on messages: list, show, resolve unknown outcomes, list parked channels."""

from __future__ import annotations

from typing import Any, Literal

from onceward.db import Connection, Database, Transaction
from onceward.messages.parking import queue_of
from onceward.messages.queueing import task_of
from onceward.trust import record

# Lists show neither addresses nor content; `show_message` returns the content by id.
LIST = """
select m.id, m.key, m.channel, m.template, o.shown as status, m.reason, m.attempts, m.scheduled_for, m.sent_at, m.created_at
  from onceward.messages m join onceward.message_outcomes o on o.id = m.id
 where ($1::text is null or o.shown = $1 or m.status = $1) and ($2::text is null or m.channel = $2)
   and ($3::text is null or m.template = $3) and ($4::bigint is null or m.id < $4)
 order by m.id desc limit $5
"""

SHOW = """
select m.id, m.organization_id, m.key, m.channel, m.template, m.version, m.category, m.locale, m.policy, o.shown as status,
       m.reason, m.attempts, m.reference, m.notification, m.scheduled_for, m.sending_since, m.sent_at, m.caused_by,
       m.created_at, w.sort_at as due_at, m.data
  from onceward.messages m
  join onceward.message_outcomes o on o.id = m.id
  left join onceward.work w on w.id = m.id
 where m.id = $1
"""

ATTEMPTS = """
select number, outcome, started_at, finished_at, error ->> 'type' as error, error ->> 'message' as message
  from onceward.attempts where work_id = $1 order by finished_at
"""

SENT = """
update onceward.messages set status = 'success', reason = null, sending = null, unsure_since = null,
       sent_at = coalesce(unsure_since, sending_since, onceward.now())
 where id = $1 and status = 'unknown' returning id
"""

RESEND = """
with again as (
    update onceward.messages set status = 'pending', reason = null, sending = null, unsure_since = null
     where id = $1 and status = 'unknown' returning id, organization_id
)
insert into onceward.work (id, organization_id, kind, task, queue, sort_at)
select id, organization_id, 'message', $2, $3, onceward.now() from again
returning id
"""

PARKED = "select name, parked_until, parked_for, failures from onceward.queues where parked_until > clock_timestamp()"


async def list_messages(
    db: Database | Connection | Transaction,
    *,
    status: str | None = None,
    channel: str | None = None,
    template: str | None = None,
    before: int | None = None,
    limit: int = 50,
) -> list[dict[str, Any]]:
    """Return messages, newest first. `status` accepts the stored and the displayed name (`success` or `sent`)."""
    return [dict(row) for row in await db.fetch(LIST, status, channel, template, before, limit)]


async def show_message(db: Database | Connection | Transaction, id: int) -> dict[str, Any] | None:
    """Return one message with all its attempts, without its address; None if the message does not exist."""
    row = await db.fetchrow(SHOW, id)
    if row is None:
        return None
    return {**dict(row), "history": [dict(each) for each in await db.fetch(ATTEMPTS, id)]}


async def resolve(tx: Transaction, id: int, verdict: Literal["sent", "resend"], *, by: str, reason: str) -> bool:
    """Record what an operator found out about an unknown message. Return False if the message is not unknown."""
    if verdict == "sent":
        resolved = await tx.fetchval(SENT, id)
    else:
        channel = await tx.fetchval("select channel from onceward.messages where id = $1", id)
        resolved = await tx.fetchval(RESEND, id, task_of(channel), queue_of(channel)) if channel else None
    if resolved is None:
        return False
    await record(tx, f"message.{verdict}", entity_type="message", entity_id=id, actor=by, reason=reason)
    return True


async def parked(db: Database | Connection) -> list[dict[str, Any]]:
    """Return the queues of parked channels with the reason."""
    return [dict(row) for row in await db.fetch(PARKED)]
