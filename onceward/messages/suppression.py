"""Addresses that get no more mail: they bounced for good, or the recipient complained. One list per organization.

The sender compares the hash of an address at the last moment, so messages that wait already are stopped too. An erasure
removes the address and keeps the hash: a person who was erased is not written to again.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from onceward.db import Connection, Database, Transaction
from onceward.statements import read_statement, scoped
from onceward.trust import Identity, record

SUPPRESS = read_statement("messages", "suppress_address")
SUPPRESS_RECIPIENT = read_statement("messages", "suppress_recipient_of")
LIST = scoped(read_statement("messages", "list_suppressions"))
REMOVE = read_statement("messages", "remove_suppression")

REASONS = ("bounce", "complaint", "operator")


async def suppress(
    tx: Transaction, address: str, *, reason: str, source: str, status: str | None = None, message: int | None = None
) -> bool:
    """Send no more mail of this organization to an address. Return False if it was suppressed already."""
    if reason not in REASONS:
        raise ValueError(f"reason must be one of {', '.join(REASONS)}, not {reason!r}")
    return bool(await tx.fetchval(SUPPRESS, tx.organization, address, reason, source, status, message))


async def suppress_by_hand(tx: Transaction, address: str, *, source: str, by: str | Identity, reason: str) -> bool:
    """Suppress an address for an operator, with an audit entry. Return False if it was suppressed already."""
    if not await suppress(tx, address, reason="operator", source=source):
        return False
    await record(
        tx,
        "mail.suppress",
        entity_type="suppression",
        entity_id=await tx.fetchval("select left(onceward.person_hash($1), 12)", address),
        actor=by,
        reason=reason,
        organization=tx.organization,
    )
    return True


async def suppress_recipient_of(
    tx: Transaction, message: int, *, reason: str, source: str, status: str | None = None
) -> bool:
    """Suppress the address that a message was sent to, in the organization of the message."""
    return bool(await tx.fetchval(SUPPRESS_RECIPIENT, message, reason, source, status))


async def list_suppressions(
    db: Database | Connection | Transaction,
    *,
    organization: UUID | None = None,
    everywhere: bool = False,
    before: datetime | None = None,
    limit: int = 100,
) -> list[dict[str, Any]]:
    """Return the suppressed addresses, newest first: of one organization, of the installation itself, or
    `everywhere`."""
    only_own = organization is None and not everywhere
    whose = None if everywhere else organization
    return [dict(row) for row in await db.fetch(LIST.of(whose), whose, only_own, before, limit)]


async def remove_suppression(
    tx: Transaction, address: str, *, organization: UUID | None, by: str | Identity, reason: str | None = None
) -> bool:
    """Allow mail to an address again. Return False if it was not suppressed. The change is audited."""
    removed = await tx.fetchval(REMOVE, organization, address)
    if removed is None:
        return False
    await record(
        tx,
        "mail.unsuppress",
        entity_type="suppression",
        entity_id=removed,
        actor=by,
        reason=reason,
        organization=organization,
    )
    return True
