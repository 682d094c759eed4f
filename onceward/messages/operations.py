"""Operator actions on messages: list, show, cancel, list parked channels."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from onceward.db import Connection, Database, Transaction
from onceward.statements import read_statement, scoped
from onceward.trust import Identity, record
from onceward.windows import Walked, Window, walk

LIST = scoped(read_statement("messages", "list_messages"))
WINDOW = scoped("""
select id from onceward.messages
 where id < $1 and id >= $2 and ($4::uuid is null or organization_id = $4) order by id desc offset $3 - 1 limit 1
""")
SHOW = read_statement("messages", "show_message")
ATTEMPTS = read_statement("messages", "list_attempts")
CANCEL = read_statement("messages", "cancel_messages")

ID_OF_KEY = "select id from onceward.messages where organization_id is not distinct from $1::uuid and key = $2"
PARKED = read_statement("messages", "list_parked")


async def list_messages(
    db: Database | Connection | Transaction,
    *,
    status: str | None = None,
    channel: str | None = None,
    template: str | None = None,
    organization: UUID | None = None,
    before: int | None = None,
    limit: int = 50,
    most: int | None = None,
) -> Walked:
    """Return messages, newest first. `status` accepts the stored and the displayed name (`success` or `sent`).

    Examines `most` messages at most.
    """
    filters = (status, channel, template, organization)
    windows = (Window(WINDOW.of(organization), (organization,)),)
    return await walk(db, LIST.of(organization), *filters, windows=windows, want=limit, before=before, most=most)


async def show_message(db: Database | Connection | Transaction, id: int) -> dict[str, Any] | None:
    """Return one message with all its attempts, without its address; None if the message does not exist."""
    row = await db.fetchrow(SHOW, id)
    if row is None:
        return None
    return {**dict(row), "history": [dict(each) for each in await db.fetch(ATTEMPTS, id)]}


async def cancel_by_key(
    tx: Transaction, key: str, *, organization: UUID | None, by: str | Identity, reason: str = ""
) -> bool:
    """Cancel the message with this key. Return False if it was sent, is being sent at this moment, or does not
    exist."""
    row = await tx.fetchrow(CANCEL, organization, [key], reason or "cancelled by an operator")
    if row is None or not row["cancelled"]:
        return False
    id = await tx.fetchval(ID_OF_KEY, organization, key)
    await record(
        tx,
        "message.cancel",
        entity_type="message",
        entity_id=id,
        actor=by,
        reason=reason or None,
        organization=organization,
    )
    return True


async def parked(db: Database) -> list[dict[str, Any]]:
    """Return the accounts that are paused, with the reason, what to do, and whose account it is (None: the
    installation's)."""
    return [dict(row) for row in await db.fetch(PARKED)]
