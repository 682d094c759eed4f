"""Commit events. Events that arrive together share a commit; each request is answered after it.

The group commit isolates a row that PostgreSQL refuses by bisection, so that only this row fails. If PostgreSQL cannot
store the payload, the event is stored as raw bytes and becomes a dead letter immediately.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from itertools import accumulate
from typing import Any, NamedTuple, cast
from uuid import UUID

import asyncpg
import orjson

from onceward.db import FAILED, Connection, Database, RawJson, Unavailable
from onceward.inbox import metrics
from onceward.inbox.event_numbers import Numbered
from onceward.inbox.handlers import followers
from onceward.inbox.reused import ReusedIds
from onceward.inbox.routing import AS_RAW, Batch, RoutedEvent, SharedRoute
from onceward.inbox.source import Source
from onceward.inbox.write_refusals import WriteRefusals
from onceward.statements import read_statement
from onceward.work import Item, Waker, insert

RECEIVE = read_statement("inbox", "receive")
RECEIVE_ALIKE = read_statement("inbox", "receive_alike")
STANDING = read_statement("inbox", "standing")
NUMBER = read_statement("inbox", "number_events")
BURY = "select onceward.bury_events($1, 'payload_invalid', 'the body is JSON that the database cannot hold')"

FLUSH_TIMEOUT_S = 10.0
WAKES_APART_S = 0.01
MOST_CONNECTIONS = 4
"""The most connections that the store opens: two for the group commit, two for ordered events of inline requests."""
UNHOLDABLE = ("22", "54")
"""SQLSTATE classes of errors that a value causes: out of range, not representable, too large."""


class Stored(NamedTuple):
    """The state of an event after the commit. `new` is false for a duplicate."""

    seq: int
    new: bool
    status: str = "pending"
    result: Any = None
    running: bool = False


class StoredCounts:
    """Counts received events by source. It counts once per commit, because counting costs as much as parsing."""

    def __init__(self) -> None:
        self._counters: dict[tuple[UUID, bool], Any] = {}

    def add(self, routed: Iterable[RoutedEvent], *, new: bool) -> None:
        for shared, total in Counter([each.shared for each in routed]).items():
            source = shared.source
            counter = self._counters.get((source.webhook_id, new))
            if counter is None:
                counter = self._counters[source.webhook_id, new] = self.counter(source, new=new)
            counter.inc(total)

    @staticmethod
    def counter(source: Source, *, new: bool) -> Any:
        result = "stored" if new else "duplicate"
        return metrics.RECEIVED.labels(str(source.webhook_id), source.provider.name, result)


class Store:
    """Stores events. The group commit calls `flush`."""

    def __init__(self, db: Database, waker: Waker) -> None:
        self._db = db
        self._waker = waker
        self._idle: list[Connection] = []
        self._next_wake: dict[str, float] = {}
        self._waking: set[str] = set()
        self._turn = asyncio.Semaphore(MOST_CONNECTIONS)
        self.counts = StoredCounts()
        self.reused_ids = ReusedIds()
        self.refusals = WriteRefusals()

    async def close(self) -> None:
        while self._idle:
            await self._idle.pop().close()

    @asynccontextmanager
    async def _connection(self) -> AsyncGenerator[Connection]:
        """Provide a connection outside the pool: handlers that use the whole pool must not delay the commit of
        webhooks."""
        async with self._turn:
            conn = self._idle.pop() if self._idle else None
            if conn is None or conn.is_closed():
                try:
                    conn = await self._db.connect(application_name="onceward inbox")
                except FAILED as error:
                    raise Unavailable(
                        f"no database connection was available: {error or type(error).__name__}"
                    ) from error
            try:
                yield conn
            finally:
                if conn.is_closed() or conn.is_in_transaction():
                    conn.terminate()
                else:
                    self._idle.append(conn)

    async def flush(self, batches: Sequence[Batch]) -> list[Sequence[Stored]]:
        """Store the events of all requests in one commit. Return the results in the order of the requests."""
        if len(batches) == 1:
            try:
                return await self._flush(batches)
            except asyncpg.PostgresError as error:
                if str(getattr(error, "sqlstate", ""))[:2] not in UNHOLDABLE:
                    raise
                # A single request was refused, so its payload is the cause. Store the event without it.
                bare = [each._replace(payload=None, unstorable=True) for each in batches[0]]
                return await self._flush([bare])
        return await self._flush(batches)

    async def number(self, count: int) -> Sequence[Numbered]:
        """Return numbers for new events, each with the time of the database."""
        async with self._connection() as conn:
            return [Numbered(**row) for row in await conn.fetch(NUMBER, count, timeout=FLUSH_TIMEOUT_S)]

    async def _flush(self, batches: Sequence[Batch]) -> list[Sequence[Stored]]:
        flat = [each for batch in batches for each in batch]
        shared_routes = list(dict.fromkeys([each.shared for each in flat]))
        order = _in_order(flat, shared_routes)
        routed = [flat[n] for n in order]
        results: list[Stored | None] = [None] * len(flat)
        async with self._connection() as conn:
            if any(each.followers for each in shared_routes) or any(each.unstorable for each in flat):
                async with conn.transaction():
                    kept, seqs = await _receive(conn, routed, shared_routes)
                    await self._afterwards(conn, [routed[n] for n in kept], seqs)
            else:
                kept, seqs = await _receive(conn, routed, shared_routes)
            for n, seq in zip(kept, seqs, strict=True):
                results[order[n]] = Stored(seq, True)
            if len(seqs) < len(flat):
                duplicates = [n for n, stored in enumerate(results) if stored is None]
                await self._standing(conn, flat, results, duplicates)
                self.counts.add([flat[n] for n in duplicates], new=False)
        if seqs:
            self.counts.add([routed[n] for n in kept], new=True)
            for queue in {each.queue for each in shared_routes}:
                self._wake(queue)
        return _by_batch(cast("list[Stored]", results), batches)

    def _wake(self, queue: str) -> None:
        """Wake workers immediately, but at most every `WAKES_APART_S`: under load a wake-up costs more than a
        commit."""
        loop = asyncio.get_running_loop()
        due = self._next_wake.get(queue, 0.0)
        if loop.time() >= due:
            self._next_wake[queue] = loop.time() + WAKES_APART_S
            self._waker.wake(queue)
        elif queue not in self._waking:
            self._waking.add(queue)
            loop.call_at(due, self._wake_late, queue)

    def _wake_late(self, queue: str) -> None:
        self._waking.discard(queue)
        self._wake(queue)

    async def _afterwards(self, conn: Connection, routed: Sequence[RoutedEvent], seqs: Sequence[int]) -> None:
        """Bury events whose body cannot be stored as JSON, and enqueue the follower jobs of the others."""
        dead: list[int] = []
        jobs: list[Item] = []
        for each, seq in zip(routed, seqs, strict=True):
            if each.unstorable:
                dead.append(seq)
            else:
                jobs += followers(each.shared.followers, seq, each.shared.source.organization)
        if dead:
            await conn.execute(BURY, dead)
        if jobs:
            await insert(conn, jobs)

    async def _standing(
        self, conn: Connection, flat: Sequence[RoutedEvent], results: list[Stored | None], duplicates: Sequence[int]
    ) -> None:
        """Fill in the state of duplicates, with a separate statement, which sees what others have just committed."""
        by_event: dict[tuple[UUID, str], list[int]] = {}
        for n in duplicates:
            by_event.setdefault((flat[n].shared.source.webhook_id, flat[n].event_id), []).append(n)
        webhook_ids, event_ids = zip(*by_event, strict=True)
        rows = await conn.fetch(STANDING, webhook_ids, event_ids, timeout=FLUSH_TIMEOUT_S)
        events = list(by_event.values())
        for row in rows:
            at: int = row["n"]
            for n in events[at - 1]:
                results[n] = standing(row)
                self.reused_ids.note(flat[n], row)
        if missing := [n for n in duplicates if results[n] is None]:
            raise LookupError(
                f"event {flat[missing[0]].event_id!r} was a duplicate, but its row does not exist any more"
            )


def standing(row: Any) -> Stored:
    """Convert a row of `standing.sql` to a `Stored`."""
    return Stored(row["seq"], False, row["status"], row["result"], row["running"])


async def _receive(
    conn: Connection, routed: Sequence[RoutedEvent], shared_routes: Sequence[SharedRoute]
) -> tuple[Sequence[int], Sequence[int]]:
    """Insert events. Return the indexes of those that were new, and their `seq` numbers."""
    ids = b"".join(time_ids(len(routed)))
    own = (ids, *_own(routed))
    if len(shared_routes) == 1:
        [row] = await conn.fetch(RECEIVE_ALIKE, *own, *_columns(shared_routes[0]), timeout=FLUSH_TIMEOUT_S)
    else:
        at = {shared: n for n, shared in enumerate(shared_routes)}
        lists = RawJson(orjson.dumps([_columns(each, orjson.Fragment) for each in shared_routes], default=str).decode())
        numbers = [at[each.shared] for each in routed]
        [row] = await conn.fetch(RECEIVE, *own, lists, numbers, timeout=FLUSH_TIMEOUT_S)
    stored, seqs = row
    if stored == ids:
        return range(len(routed)), seqs
    where = {ids[n : n + 16]: n // 16 for n in range(0, len(ids), 16)}
    return [where[stored[n : n + 16]] for n in range(0, len(stored or b""), 16)], seqs or ()


def _in_order(routed: Sequence[RoutedEvent], shared_routes: Sequence[SharedRoute]) -> list[int]:
    """Return indexes sorted by key: two nodes that insert the same events in different orders would deadlock.

    An event that came several times is returned once: a flood of duplicates is one row for PostgreSQL.
    """
    keys: list[Any] = [each.event_id for each in routed]
    if len(shared_routes) > 1:
        keys = [(each.shared.source.name, each.event_id) for each in routed]
    first = {key: n for n, key in zip(range(len(keys) - 1, -1, -1), reversed(keys), strict=True)}
    return sorted(first.values(), key=keys.__getitem__)


def _own(routed: Sequence[RoutedEvent]) -> tuple[Any, ...]:
    """Return the values that differ between events. Ids and signatures are printable, so newlines can separate them."""
    payloads = [each.payload for each in routed]
    bodies = [each.raw or b"" for each in routed]
    ends = list(accumulate(map(len, bodies)))
    # A batch may store its body with the first event only. The others have no body, not an empty one.
    starts = ["" if each.raw is None else str(end - len(each.raw) + 1) for each, end in zip(routed, ends, strict=True)]
    return (
        "\n".join([each.event_id for each in routed]),
        None if payloads.count(AS_RAW) == len(payloads) else payloads,
        b"".join(bodies),
        "\n".join(starts),
        "\n".join([str(len(body)) for body in bodies]),
        "\n".join([each.signature or "" for each in routed]),
    )


def _columns(shared: SharedRoute, json: Callable[[str], Any] = RawJson) -> tuple[Any, ...]:
    """Return the values that events share, in the parameter order of both statements."""
    source = shared.source
    names = (source.webhook_id, source.organization, source.provider.name, shared.type)
    return (
        *names,
        json(shared.headers),
        shared.task,
        shared.queue,
        shared.lane,
        shared.ordered or None,
        source.stored_route,
    )


def _by_batch(results: Sequence[Stored], batches: Sequence[Batch]) -> list[Sequence[Stored]]:
    if len(results) == len(batches):
        return [(each,) for each in results]
    rest = iter(results)
    return [[next(rest) for _ in batch] for batch in batches]


def time_ids(count: int) -> list[bytes]:
    """Return ids like `onceward.time_uuid()`: ordered by time, so that the index grows only at its end."""
    stamp = int(time.time() * 1000).to_bytes(6, "big")
    noise = os.urandom(10 * count)
    return [
        stamp + bytes((noise[n] & 0x0F | 0x70, noise[n + 1], noise[n + 2] & 0x3F | 0x80)) + noise[n + 3 : n + 10]
        for n in range(0, 10 * count, 10)
    ]
