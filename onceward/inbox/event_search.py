"""Find events by filters, newest first, without an index for every filter: read windows of events, for a limited
number."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from onceward.db import Connection, Database, Transaction
from onceward.statements import NamedStatement, named, read_statement, scoped
from onceward.windows import LAST, Window, walk

DEFAULT_LIMIT = 100
OPEN_FOR = timedelta(minutes=10)
"""The assumed longest transaction: its events have the time of its start, but ids that were assigned later."""
FIND_TEXT = read_statement("inbox", "find_events")
ANY_WORK = "left join onceward.work w on w.id = e.seq"
assert ANY_WORK in FIND_TEXT
UNFINISHED_TEXT = FIND_TEXT.replace(
    ANY_WORK, "join onceward.work w on w.id = e.seq and w.kind = 'event' and w.id < $upper and w.id >= $lower"
)
FIRST = "-- $upper $lower $limit\n"
"""Gives these parameters the numbers that `walk` expects."""
DEAD_TEXT = UNFINISHED_TEXT.replace("w.kind = 'event'", "w.kind = 'event' and w.dead_reason is not null")
FIND = named(FIRST + FIND_TEXT)
FIND_UNFINISHED = named(FIRST + UNFINISHED_TEXT)
"""Unfinished events and dead letters have a row in `work`: only those are read, not all events."""
FIND_DEAD = named(FIRST + DEAD_TEXT)
UNFINISHED = frozenset({"pending", "processing", "dead_letter"})

WINDOW = """
select e.seq as id from onceward.webhook_events e where e.seq < $1 and e.seq >= $2 order by e.seq desc offset $3 - 1
 limit 1
"""
UNFINISHED_WINDOW = """
select w.id from onceward.work w where w.id < $1 and w.id >= $2 order by w.id desc offset $3 - 1 limit 1
"""
DEAD_WINDOW = UNFINISHED_WINDOW.replace("order by", "and w.dead_reason is not null order by")
OWN_WINDOW = WINDOW.replace("order by", "and e.organization_id = $4 order by")
OWN_DEAD_WINDOW = DEAD_WINDOW.replace("order by", "and w.organization_id = $4 order by")
OF_ORGANIZATION = {find: scoped(find.text) for find in (FIND, FIND_UNFINISHED, FIND_DEAD)}


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
class FoundPage:
    """The events of a page. A search for older ones continues below the id `next`; None: there are none."""

    events: list[FoundEvents]
    next: int | None


async def search(
    conn: Connection | Transaction | Database,
    criteria: EventFilter,
    *,
    limit: int = DEFAULT_LIMIT,
    before: int | None = None,
    after: int = 0,
    most: int | None = None,
) -> FoundPage:
    """Return up to `limit` events with a `seq` below `before` and above `after`, newest first.

    Reads about `most` events at most: the page may then have fewer events than `limit`, or none, although `next` is
    given. Without `most`, the search ends when the page is full or when no event is left.
    """
    upper, oldest = await _bounds(conn, criteria, before, after)
    if criteria.ids is not None or criteria.event_ids is not None:
        events = await _find(conn, criteria, upper, oldest, limit)
        return FoundPage(events, events[-1].seq if len(events) == limit else None)
    find, windows = _statements(criteria)
    values = {each.name: getattr(criteria, each.name) for each in fields(criteria)}
    found = await walk(
        conn,
        find.text,
        *find.values(**values, upper=None, lower=None, limit=None)[3:],
        windows=windows,
        want=limit,
        id="seq",
        before=upper,
        oldest=oldest,
        most=most,
    )
    return FoundPage([_found(row) for row in found.rows], found.next)


async def _bounds(
    conn: Connection | Transaction | Database, criteria: EventFilter, before: int | None, after: int
) -> tuple[int, int]:
    """Return the ids between which the search reads. Ids grow with time, so that times bound them too."""
    upper, oldest = LAST if before is None else before, after + 1
    if criteria.since is not None:
        oldest = max(oldest, await conn.fetchval("select onceward.event_at($1)", criteria.since - OPEN_FOR))
    if criteria.until is not None:
        upper = min(upper, await conn.fetchval("select onceward.event_at($1)", criteria.until + OPEN_FOR))
    return upper, oldest


def _statements(criteria: EventFilter) -> tuple[NamedStatement, tuple[Window, ...]]:
    """Return the statement that finds events, and what bounds the rows that it examines."""
    statuses = set(criteria.statuses or ())
    own = criteria.organization is not None
    all_events = Window(OWN_WINDOW, (criteria.organization,)) if own else Window(WINDOW)
    if statuses == {"dead_letter"}:
        find, windows = FIND_DEAD, (Window(OWN_DEAD_WINDOW, (criteria.organization,)) if own else Window(DEAD_WINDOW),)
    elif statuses and statuses <= UNFINISHED:
        # A viewer of one organization may not count the work of others.
        find, windows = FIND_UNFINISHED, (all_events,) if own else (all_events, Window(UNFINISHED_WINDOW))
    else:
        find, windows = FIND, (all_events,)
    return NamedStatement(OF_ORGANIZATION[find].of(criteria.organization), find.names), windows


async def _find(
    conn: Connection | Transaction | Database, criteria: EventFilter, upper: int, lower: int, limit: int
) -> list[FoundEvents]:
    filters = {each.name: getattr(criteria, each.name) for each in fields(criteria)}
    find, _ = _statements(criteria)
    rows = await conn.fetch(find.text, *find.values(**filters, upper=upper, limit=limit, lower=lower))
    return [_found(row) for row in rows]


def _found(row: Any) -> FoundEvents:
    status = "processing" if row["status"] == "pending" and row["running"] else row["status"]
    values = {name: row[name] for name in FoundEvents.__slots__ if name != "status"}
    return FoundEvents(status=status, **values)
