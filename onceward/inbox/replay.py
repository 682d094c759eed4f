"""Replay events: handle them again under the same event id. Each replay is audited in the same transaction.

Dead letters, failed events and unhandled events keep their row. An event that succeeded runs again only as a new event,
caused by the old one, and only with a reason for the audit log.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from onceward.db import Connection, Database, Transaction
from onceward.errors import OncewardError
from onceward.statements import read_statement
from onceward.trust import Identity, record

DEFAULT_LIMIT = 100

FIND = read_statement("inbox", "find_events")
ANY_WORK = "left join onceward.work w on w.id = e.seq"
assert ANY_WORK in FIND
FIND_UNFINISHED = FIND.replace(ANY_WORK, "join onceward.work w on w.id = e.seq and w.kind = 'event'")
"""Unfinished events and dead letters have a row in `work`, which is small, so that not all events are read."""
UNFINISHED = frozenset({"pending", "processing", "dead_letter"})
AGAIN = read_statement("inbox", "requeue_event")
COPY = read_statement("inbox", "copy_event")


class NoEventFilter(OncewardError, ValueError):
    """A replay needs at least one filter, so that nobody replays everything by accident."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EventFilter:
    """Which events to find. A field that is None does not filter."""

    ids: Sequence[int] | None = None
    event_ids: Sequence[str] | None = None
    source: str | None = None
    type: str | None = None
    statuses: Sequence[str] | None = None
    since: datetime | None = None
    until: datetime | None = None
    error: str | None = None
    unhandled: bool | None = None
    organization: UUID | None = None

    @property
    def empty(self) -> bool:
        names = ("ids", "event_ids", "source", "type", "since", "until", "error")
        return all(getattr(self, name) is None for name in names)


@dataclass(frozen=True, slots=True)
class FoundEvents:
    """An event as lists show it."""

    seq: int
    id: UUID
    webhook_id: UUID
    source: str
    event_id: str
    provider: str
    type: str
    status: str
    attempts: int
    error: str | None
    received_at: datetime
    processed_at: datetime | None
    organization_id: UUID | None
    pruned: bool = False


@dataclass(frozen=True, slots=True)
class Replayed:
    """The result of a replay. `skipped` maps each event that was not replayed to the reason."""

    done: list[int] = field(default_factory=list[int])
    skipped: dict[int, str] = field(default_factory=dict[int, str])


async def find(
    conn: Connection | Transaction | Database,
    criteria: EventFilter,
    *,
    limit: int = DEFAULT_LIMIT,
    before: int | None = None,
    oldest: int | None = None,
) -> list[FoundEvents]:
    """Return events, newest first, with a `seq` from `oldest` on and below `before`, the last one of the previous page."""
    unfinished = criteria.statuses is not None and UNFINISHED.issuperset(criteria.statuses)
    rows = await conn.fetch(
        FIND_UNFINISHED if unfinished else FIND,
        criteria.ids,
        criteria.event_ids,
        criteria.source,
        criteria.type,
        criteria.statuses,
        criteria.since,
        criteria.until,
        criteria.error,
        criteria.unhandled,
        criteria.organization,
        before,
        limit,
        oldest,
    )
    return [_found(row) for row in rows]


def _found(row: Any) -> FoundEvents:
    status = "processing" if row["status"] == "pending" and row["running"] else row["status"]
    values = {name: row[name] for name in FoundEvents.__slots__ if name != "status"}
    return FoundEvents(status=status, **values)


async def replay(
    db: Database,
    criteria: EventFilter,
    *,
    actor: str | Identity,
    reason: str,
    limit: int = DEFAULT_LIMIT,
    as_new: bool = False,
    dry_run: bool = False,
) -> Replayed:
    """Make events due again, oldest first. A dry run only returns which events would be replayed."""
    if criteria.empty:
        raise NoEventFilter("a replay needs an id or a filter: source, type, since, until or error")
    if as_new and not reason.strip():
        raise ValueError("a replay as a new event needs a reason for the audit log")
    done = Replayed()
    async with db.transaction(role="engine") as tx:
        await tx.execute("select set_config('onceward.operator', $1, true)", _name(actor))
        for event in reversed(await find(tx, criteria, limit=limit)):
            why = _why_not(event, criteria, as_new=as_new)
            if why is not None:
                done.skipped[event.seq] = why
                continue
            if dry_run:
                done.done.append(event.seq)
                continue
            seq = await _again(tx, event, actor=actor, reason=reason, as_new=as_new)
            if seq is None:
                done.skipped[event.seq] = "another operator has just replayed it"
            else:
                done.done.append(seq)
    return done


def _why_not(event: FoundEvents, criteria: EventFilter, *, as_new: bool) -> str | None:
    if event.pruned:
        return "its body was pruned: ask the sender to send the event again"
    if as_new:
        return None if event.status == "success" else f"its status is {event.status}: replay it without `as new`"
    if event.status in ("dead_letter", "failed") or (event.status == "success" and criteria.unhandled):
        return None
    if event.status == "success":
        return "it succeeded: to run it again, replay it as a new event (as new)"
    return f"its status is {event.status}: it will run without a replay"


async def _again(
    tx: Transaction, event: FoundEvents, *, actor: str | Identity, reason: str, as_new: bool
) -> int | None:
    seq = event.seq
    if as_new:
        seq = await tx.fetchval(COPY, event.seq)
    elif not await tx.fetch(AGAIN, event.seq, event.status):
        return None
    await record(
        tx,
        "event.replayed",
        entity_type="event",
        entity_id=event.seq,
        metadata={"event_id": event.event_id, "was": event.status, "error": event.error}
        | ({"as": seq} if as_new else {}),
        actor=actor,
        reason=reason or None,
        organization=event.organization_id,
    )
    return seq


def _name(actor: str | Identity) -> str:
    return actor if isinstance(actor, str) else actor.actor
