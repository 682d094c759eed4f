"""The audit log: who did what to which entity, appended in the transaction that did it.

The database sets id, time, cause and hashes, and refuses every change except an erasure. `onceward.trust.sealer` chains
the entries after their commit; `onceward.trust.chain` proves that nobody has changed them since.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from onceward.db import Connection, Transaction
from onceward.statements import read_statement, scoped
from onceward.trust.identity import Identity
from onceward.windows import Walked, Window, walk

INSERT = read_statement("trust", "add_audit_entry")
INSERT_MANY = read_statement("trust", "add_audit_entries")
INSERT_EACH = read_statement("trust", "add_audit_entry_each")
LIST = scoped(read_statement("trust", "list_audit_entries"))
WINDOW = scoped("""
select id from onceward.audit_log
 where id < $1 and id >= $2 and ($4::uuid is null or organization_id = $4) order by id desc offset $3 - 1 limit 1
""")
OF_ENTITY = """
select id from onceward.audit_log
 where id < $1 and id >= $2 and entity_type = $4 and entity_id = $5 order by id desc offset $3 - 1 limit 1
"""


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """One entry of the audit log. Erased fields are None; an erased actor is `erased`."""

    id: int
    organization_id: UUID | None
    at: datetime
    action: str
    entity_type: str
    entity_id: str | None
    actor: str
    user_id: str | None
    reason: str | None
    changes: Any
    metadata: Any
    caused_by: int | None
    erased_at: datetime | None


async def record(
    tx: Transaction,
    action: str,
    *,
    entity_type: str,
    entity_id: object,
    changes: Mapping[str, Any] | None = None,
    metadata: Mapping[str, Any] | None = None,
    actor: str | Identity | None = None,
    user_id: str | None = None,
    reason: str | None = None,
    organization: UUID | None = None,
) -> None:
    """Append an entry that exists if and only if this transaction commits.

    The default `actor` is the cause of the transaction (`event:17`), or `system`; `user_id` is the person behind it, by
    default that of the identity. Only the engine may give an `organization` other than the transaction's own.
    """
    name, person = _who(tx, actor)
    await tx.execute(
        INSERT,
        organization,
        action,
        entity_type,
        None if entity_id is None else str(entity_id),
        name,
        user_id or person,
        reason,
        changes,
        metadata,
    )


async def record_many(
    tx: Transaction,
    action: str,
    *,
    entity_type: str,
    changes: Mapping[object, Mapping[str, Any]],
    actor: str | Identity | None = None,
    reason: str | None = None,
) -> None:
    """Append one entry for each entity, in one statement. `changes` maps the id of an entity to what changed."""
    name, user_id = _who(tx, actor)
    await tx.execute(
        INSERT_MANY,
        tx.organization,
        action,
        entity_type,
        [str(entity_id) for entity_id in changes],
        name,
        user_id,
        reason,
        [dict(each) for each in changes.values()],
    )


class Entry(NamedTuple):
    """What differs between the entries of one action."""

    organization: UUID | None
    entity_type: str
    entity_id: object
    metadata: Mapping[str, Any]


async def record_each(
    tx: Transaction, action: str, entries: Sequence[Entry], *, actor: str | Identity, reason: str
) -> None:
    """Append one entry for each entity of any organization, in one statement. Only the engine may do so."""
    name, user_id = _who(tx, actor)
    organizations, types, ids, metadata = zip(*entries, strict=True) if entries else ((), (), (), ())
    await tx.execute(
        INSERT_EACH,
        action,
        name,
        user_id,
        reason,
        organizations,
        types,
        [str(id) for id in ids],
        [dict(each) for each in metadata],
    )


def _who(tx: Transaction, actor: str | Identity | None) -> tuple[str, str | None]:
    if isinstance(actor, Identity):
        return actor.actor, actor.person
    if actor is not None:
        return actor, None
    return ("system" if tx.cause is None else f"{tx.cause.kind}:{tx.cause.id}"), None


async def list_entries(
    conn: Connection | Transaction,
    *,
    organization: UUID | None = None,
    action: str | None = None,
    entity_type: str | None = None,
    entity_id: str | None = None,
    before: int | None = None,
    limit: int = 100,
) -> list[AuditEntry]:
    """Return entries, newest first. `before` is the last id of the previous page."""
    filters = EntryFilter(organization, action, entity_type, entity_id)
    return (await search_entries(conn, filters, before=before, limit=limit)).rows


class EntryFilter(NamedTuple):
    """Which entries are meant. None matches everything."""

    organization: UUID | None = None
    action: str | None = None
    entity_type: str | None = None
    entity_id: str | None = None


async def search_entries(
    conn: Connection | Transaction,
    filters: EntryFilter,
    *,
    before: int | None = None,
    limit: int = 100,
    most: int | None = None,
) -> Walked:
    """Return entries, newest first, and where to continue. Examines `most` of them at most.

    Those of one entity are found by an index.
    """
    windows = [Window(WINDOW.of(filters.organization), (filters.organization,))]
    if filters.entity_type is not None and filters.entity_id is not None:
        windows = [Window(OF_ENTITY, (filters.entity_type, filters.entity_id))]
    statement = LIST.of(filters.organization)
    found = await walk(conn, statement, *filters, windows=windows, want=limit, before=before, most=most)
    return Walked([AuditEntry(**dict(row)) for row in found.rows], found.next, found.unfinished)
