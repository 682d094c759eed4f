"""Handle an event inside its own request: one transaction stores the event, runs the handler and stores the result.

insert event ──▶ savepoint ──▶ handler ──▶ mark ──▶ commit ──▶ 200 with the result
     │                            ├ fails: roll back to the savepoint, leave the event to workers, commit ──▶ 500
     │                            └ ends the transaction: keep the event as a dead letter, in another one ──▶ 500
     └ duplicate: wait on the unique key for a concurrent request, then answer with the first result or run the event

Requests that wait share the transaction of another one (`inline_groups.py`). Workers never see a half-handled event. A
crash before the commit leaves nothing behind. Besides the statements of the handler this takes two round trips, one
that stores the event and one that commits, and a third that takes numbers for all waiting requests.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Hashable
from contextlib import asynccontextmanager
from typing import Any
from uuid import UUID

import asyncpg
import structlog

from onceward.background import TimeLimit
from onceward.db import (
    FAILED,
    Connection,
    Database,
    OutcomeUnknown,
    RoleChanged,
    Transaction,
    TransactionEnded,
    Unavailable,
)
from onceward.db.lost import is_gone
from onceward.db.transaction import ended_and_failed
from onceward.errors import OncewardError
from onceward.inbox import answers, metrics
from onceward.inbox.admission import LimitName, RequestLimited
from onceward.inbox.answers import Answer
from onceward.inbox.duplicate_waits import WAIT_S, Waiting
from onceward.inbox.event import LOAD, stored
from onceward.inbox.event_numbers import Numbering
from onceward.inbox.handlers import QUEUE, Handler, enqueue_followers
from onceward.inbox.inline_groups import Entry, InlineGroups, RunAlone
from onceward.inbox.inline_statements import (
    CHECK_NOW,
    PARAMETERS,
    RECEIVE,
    SAVEPOINT,
    held_by_request,
    insert_event,
    is_literal,
    queue_failed,
    success_of,
    values_of,
)
from onceward.inbox.routing import RoutedEvent
from onceward.inbox.store import STANDING, Store, Stored, standing, time_ids
from onceward.statements import read_statement
from onceward.telemetry.logs import running
from onceward.work import Claimed, Overloaded, TimedOut, judge
from onceward.work.claim import new_lease
from onceward.work.gate import gate
from onceward.work.leaks import failure_of
from onceward.work.settle import final_statement, settle

log = structlog.get_logger(__name__)

TAKE = read_statement("inbox", "take")

EXISTS = "select exists (select from onceward.webhook_events where seq = $1)"
NOBODY = 0
"""The worker number in `attempts` of an attempt that a request made."""

Opener = Callable[[Connection, Claimed], Transaction]
Restore = Callable[[Transaction], Awaitable[bool]]
"""Stores and holds an event again whose handler has ended their transaction.

Returns False if another request has the event now.
"""


class Busy(OncewardError):
    """Another request or a worker is handling the event."""


class Inline:
    """Runs handlers inside requests, at most `most_at_once` at a time. Further requests are answered 503.

    An organization (or a source of the platform) may have as many requests as there is still room for, so that slow
    handlers of one customer leave room for the others. More are answered 429.
    """

    def __init__(
        self,
        db: Database,
        store: Store,
        open_tx: Opener,
        waiting: Waiting,
        *,
        shares: bool = True,
        most_at_once: int = 200,
    ) -> None:
        self._db = db
        self._store = store
        self._waiting = waiting
        self._open_tx = open_tx
        self._most_at_once = most_at_once
        self._numbering = Numbering(store.number)
        self._groups = InlineGroups(db, open_tx)
        self._shares = shares
        self._running = 0
        self._running_of: Counter[Hashable] = Counter()

    async def observe(self) -> None:
        """Learn which handlers wait for each other's row locks."""
        await self._groups.observe()

    async def receive(self, routed: RoutedEvent, payload: Any, handler: Handler) -> Answer:
        """Store and handle one event.

        Return its result, the first result of a duplicate, or why there is no result yet.
        """
        if self._running >= self._most_at_once:
            metrics.UNAVAILABLE.labels("overloaded").inc()
            return answers.unavailable("overloaded")
        customer = routed.shared.source.line[0]
        if self._running_of[customer] >= self._most_at_once - self._running:
            raise RequestLimited(LimitName.SHARE)
        self._running += 1
        self._running_of[customer] += 1
        try:
            answer = await self._receive(routed, payload, handler)
            if self._store.refusals.lasts:
                self._store.refusals.over()
            return answer
        except (Overloaded, *FAILED) as error:
            # Nothing was committed, whatever the handler did: its own failure is an answer, not an exception.
            return answers.not_stored(routed.shared.source, error, self._store.refusals)
        finally:
            self._running -= 1
            self._running_of[customer] -= 1
            if not self._running_of[customer]:
                del self._running_of[customer]

    async def _receive(self, routed: RoutedEvent, payload: Any, handler: Handler) -> Answer:
        if routed.shared.ordered:
            # The lane decides whose turn it is, so the event must be in its lane first.
            [[event]] = await self._store.flush([[routed]])
            if event.new:
                answer = await self._wait_for_turn(event.seq, handler)
                return answer._replace(duplicate=False)
            return await self._again(event, handler)
        numbered = await self._numbering.next()
        id = UUID(bytes=time_ids(1)[0])
        work = held_by_request(numbered, id, routed, payload)
        work.db = self._db
        try:
            if self._shares and is_literal(routed):
                entry = Entry(routed, work, id, handler.task)
                if self._groups.takes(entry):
                    try:
                        return await self._receive_in_group(entry, handler)
                    except RunAlone:
                        log.debug("inline.runs_alone", id=work.id, task=work.task)
            async with self._db.acquire() as conn:
                return await self._insert_and_run(conn, work, id, routed, handler, None)
        except asyncpg.LockNotAvailableError:
            return answers.still_running()
        except KnownEvent as known:
            return await self._again(known.stored, handler)

    async def _receive_in_group(self, entry: Entry, handler: Handler) -> Answer:
        group = await self._groups.enter(entry)
        try:
            if group is not None:
                return answers.success(await self._groups.handle_in(group, entry))
            async with self._db.acquire() as conn:
                return await self._insert_and_run(conn, entry.work, entry.id, entry.routed, handler, entry)
        finally:
            self._groups.leave(entry, group)

    @asynccontextmanager
    async def _transaction(self) -> AsyncGenerator[Transaction]:
        """Open a transaction of the engine that waits at most `WAIT_S` seconds for a concurrent request."""
        async with self._db.acquire() as conn, Transaction(conn, role="engine", lock_timeout_s=WAIT_S) as tx:
            yield tx

    async def _insert_and_run(
        self, conn: Connection, work: Claimed, id: UUID, routed: RoutedEvent, handler: Handler, entry: Entry | None
    ) -> Answer:
        """Store and handle the event in a transaction of its own, or as the first of the group of `entry`."""
        tx = self._open_tx(conn, work)
        if not await insert_event(tx, work, id, routed):
            raise KnownEvent(await self._find(conn, routed))
        gate("inline-inserted")

        async def restore(again: Transaction) -> bool:
            if await again.fetchval(RECEIVE.format(PARAMETERS), *values_of(work, id, routed)):
                await enqueue_followers(work, routed.shared.followers, again)
            elif not await again.fetchval(EXISTS, work.id):
                return False
            await queue_failed(again, work)
            return True

        return await self._run(tx, work, handler, restore, is_queued=False, entry=entry)

    async def _find(self, conn: Connection, routed: RoutedEvent) -> Stored:
        """Return the state of an event that was stored before."""
        source = routed.shared.source
        first = await conn.fetchrow(STANDING, [source.webhook_id], [routed.event_id])
        if first is None:
            raise Unavailable(f"event {routed.event_id!r} was deleted while its duplicate was received")
        self._store.reused_ids.note(routed, first)
        return standing(first)

    async def _run(
        self,
        tx: Transaction,
        work: Claimed,
        handler: Handler,
        restore: Restore,
        *,
        is_queued: bool,
        entry: Entry | None = None,
    ) -> Answer:
        """Run the handler in the open transaction that locks the event, mark the outcome, and commit. A failure keeps
        the event.

        `is_queued` says whether the event has work already, which its lease then fences.
        """
        work.began_s = time.monotonic()
        work.db = self._db
        token = running.set(work)
        try:
            return await self._run_in(tx, work, handler, is_queued=is_queued, entry=entry)
        except TransactionEnded as error:
            failure = error
        finally:
            running.reset(token)
        # Whether the handler's end was a commit or a rollback, the event and the reason are kept.
        async with Transaction(tx.conn, role="engine", lock_timeout_s=WAIT_S) as own:
            if await restore(own):
                outcome = judge(handler.task, work, failure)
                await settle(own.conn, work, NOBODY, outcome, critical=handler.task.critical)
        return answers.failure(failure, work)

    async def _run_in(
        self, tx: Transaction, work: Claimed, handler: Handler, *, is_queued: bool, entry: Entry | None
    ) -> Answer:
        """Raise TransactionEnded if the handler has ended the transaction, and with it the hold on its event."""
        async with tx:
            failure: Exception
            try:
                if entry is not None:
                    return answers.success(await self._groups.handle_first(entry, tx))
                async with TimeLimit(handler.task.timeout_s, of=work.task):
                    value = await handler.task.run(work, tx)
                gate("inline-before-commit")
                if is_queued:
                    final = final_statement(work, NOBODY, value)
                else:
                    final = success_of(work, value, elapsed_s=work.elapsed_s)
                await tx.commit(f"{CHECK_NOW}; {final}")
                gate("inline-after-commit")
                return answers.success(value)
            except (OutcomeUnknown, RunAlone):
                raise
            except TimeoutError:
                failure = TimedOut(f"{work.task} ran longer than its time limit")
            except BaseException as error:
                failure = failure_of(error)
            if is_gone(tx.conn):
                raise Unavailable(f"the transaction was lost: {type(failure).__name__}") from failure
            await _undo(tx, failure)
            outcome = judge(handler.task, work, failure)
            if not is_queued:
                await queue_failed(tx, work)
            await settle(tx.conn, work, NOBODY, outcome, critical=handler.task.critical)
            gate("inline-failed")
        return answers.failure(failure, work)

    # -- duplicates --------------------------------------------------------------------------------------------------

    async def _again(self, first: Stored, handler: Handler) -> Answer:
        """Answer a duplicate with the first result. If there is none and nothing handles the event, handle it now."""
        if first.status in ("success", "failed", "dead_letter"):
            return answers.first_result(first)
        if first.running:
            return await self._wait(first.seq)
        return await self._wait_for_turn(first.seq, handler)

    async def _wait_for_turn(self, seq: int, handler: Handler) -> Answer:
        try:
            async with self._transaction() as tx:
                return await self._take_and_run(tx, seq, handler)
        except (Busy, asyncpg.LockNotAvailableError, asyncpg.UniqueViolationError):
            return await self._wait(seq)

    async def _take_and_run(self, tx: Transaction, seq: int, handler: Handler) -> Answer:
        lease = new_lease()
        row = await tx.fetchrow(TAKE, seq, lease, QUEUE)
        if row is None:
            raise Busy
        [event] = await tx.fetch(LOAD, [seq])
        work = Claimed(
            lease,
            seq,
            "event",
            row["task"],
            row["organization_id"],
            row["attempts"],
            row["crashes"],
            row["max_attempts"],
            lane=row["lane"],
        )
        work.body = stored(event)
        own = self._open_tx(tx.conn, work)
        await own.take_over(tx, SAVEPOINT)

        async def restore(again: Transaction) -> bool:
            # Without effect if the handler has committed the lease; settling is fenced by it in any case.
            await again.execute(TAKE, seq, lease, QUEUE)
            return True

        return await self._run(own, work, handler, restore, is_queued=True)

    async def _wait(self, seq: int) -> Answer:
        """Wait up to `WAIT_S` seconds for the result of a running event. After that, ask the sender to retry."""
        ended = await self._waiting.until_ended(seq)
        return answers.still_running() if ended is None else answers.first_result(ended)


class KnownEvent(OncewardError):
    """The event is a duplicate: it was stored before."""

    def __init__(self, stored: Stored) -> None:
        super().__init__(stored.seq)
        self.stored = stored


async def _undo(tx: Transaction, failure: Exception) -> None:
    """Undo what the handler did. Raise TransactionEnded if it has ended the transaction itself."""
    if isinstance(failure, TransactionEnded) and not isinstance(failure, RoleChanged):
        raise failure
    try:
        if tx.conn.is_in_transaction():
            return await tx.rollback_to("handler")
    except asyncpg.InvalidSavepointSpecificationError:
        log.debug("savepoint.missing", error=type(failure).__name__)
    raise ended_and_failed(failure) from failure
