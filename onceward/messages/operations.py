"""Operator actions on messages: list, show, resolve unknown outcomes, list parked channels."""

from __future__ import annotations

from typing import Any, Literal

from onceward.db import Connection, Database, Transaction
from onceward.messages.parking import queue_of
from onceward.messages.queueing import task_of
from onceward.statements import read_statement
from onceward.trust import record

LIST = read_statement("messages", "list_messages")
SHOW = read_statement("messages", "show_message")
ATTEMPTS = read_statement("messages", "list_attempts")
SENT = read_statement("messages", "mark_sent")
RESEND = read_statement("messages", "resend_message")

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
