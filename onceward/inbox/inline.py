"""Handle an event inside its own request: one transaction stores the event, runs the handler and stores the result.

insert event ──▶ savepoint ──▶ handler ──▶ mark ──▶ commit ──▶ 200 with the result
     │                            └ fails: roll back to the savepoint, leave the event to workers, commit ──▶ 500
     └ duplicate: wait on the unique key for a concurrent request, then answer with the first result or run the event

Workers never see a half-handled event. A crash before the commit leaves nothing behind.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import asyncpg
import structlog

from onceward.db import OUTAGE, Connection, Database, OutcomeUnknown, Transaction, Unavailable, loudness
from onceward.errors import OncewardError
from onceward.inbox import answers, metrics
from onceward.inbox.answers import Answer
from onceward.inbox.event import LOAD, StoredEvent, stored
from onceward.inbox.handlers import QUEUE, Handler, enqueue_followers
from onceward.inbox.routing import Placed
from onceward.inbox.store import STANDING, Store, Stored, standing, time_ids
from onceward.inbox.waiting import WAIT_S, Waiting
from onceward.statements import read_statement
from onceward.work import Claimed, Permanent, Reply, Snooze, TimedOut, judge
from onceward.work.claim import new_lease
from onceward.work.failure_text import loggable, own_frame
from onceward.work.gate import gate
from onceward.work.settle import describe, final_statement, settle

log = structlog.get_logger(__name__)

RECEIVE_INLINE = read_statement("inbox", "receive_inline")
TAKE = read_statement("inbox", "take")

SAVEPOINT = "set local lock_timeout = 0; savepoint handler"
CHECK_NOW = "set constraints all immediate"
"""Check deferred constraints before the commit, while the event can still be kept if one of them fails."""
NOBODY = 0
"""The worker number in `attempts` of an attempt that a request made."""

Opener = Callable[[Connection, Claimed], Transaction]


class Busy(OncewardError):
    """Another request or a worker is handling the event."""


class Inline:
    """Runs handlers inside requests, at most `most_at_once` at a time. Further requests are answered 503."""

    def __init__(
        self, db: Database, store: Store, open_tx: Opener, waiting: Waiting, *, most_at_once: int = 200
    ) -> None:
        self._db = db
        self._store = store
        self._waiting = waiting
        self._open_tx = open_tx
        self._most_at_once = most_at_once
        self._running = 0

    async def receive(self, placed: Placed, payload: Any, handler: Handler) -> Answer:
        """Store and handle one event. Return its result, the first result of a duplicate, or why there is no result yet."""
        if self._running >= self._most_at_once:
            metrics.UNAVAILABLE.labels("overloaded").inc()
            return answers.unavailable("overloaded")
        self._running += 1
        try:
            return await self._receive(placed, payload, handler)
        except OutcomeUnknown:
            metrics.UNAVAILABLE.labels("outcome_unknown").inc()
            return answers.unavailable("outcome unknown")
        except OUTAGE as error:
            log.log(loudness(error), "request.deferred", source=placed.common.source.name, error=type(error).__name__)
            metrics.UNAVAILABLE.labels("database").inc()
            return answers.unavailable("database")
        finally:
            self._running -= 1

    async def _receive(self, placed: Placed, payload: Any, handler: Handler) -> Answer:
        if placed.common.ordered:
            # The lane decides whose turn it is, so the event must be in its lane first.
            [[event]] = await self._store.flush_one(placed)
            if event.new:
                answer = await self._wait_for_turn(event.seq, handler)
                return answer._replace(duplicate=False)
            return await self._again(event, handler)
        try:
            async with self._transaction() as tx:
                return await self._insert_and_run(tx, placed, payload, handler)
        except asyncpg.LockNotAvailableError:
            return answers.still_running()
        except KnownEvent as known:
            return await self._again(known.stored, handler)

    @asynccontextmanager
    async def _transaction(self) -> AsyncGenerator[Transaction]:
        """Open a transaction of the engine that waits at most `WAIT_S` seconds for a concurrent request."""
        async with self._db.acquire() as conn, Transaction(conn, role="engine", lock_timeout_s=WAIT_S) as tx:
            yield tx

    async def _insert_and_run(self, tx: Transaction, placed: Placed, payload: Any, handler: Handler) -> Answer:
        lease = new_lease()
        id = UUID(bytes=time_ids(1)[0])
        common = placed.common
        source = common.source
        row = await tx.fetchrow(
            RECEIVE_INLINE,
            id,
            source.webhook_id,
            placed.event_id,
            source.organization,
            source.provider.name,
            common.type,
            placed.payload_text,
            placed.raw,
            common.headers,
            placed.signature,
            common.task,
            QUEUE,
            lease,
            source.stored_route,
        )
        gate("inline-inserted")
        if row is None:
            first = await tx.fetchrow(STANDING, [source.webhook_id], [placed.event_id])
            if first is None:
                raise Unavailable(f"event {placed.event_id!r} was deleted while its duplicate was received")
            self._store.reused_ids.note(source, stored_type=first["type"], type=common.type)
            raise KnownEvent(standing(first))
        event = StoredEvent(
            row["seq"],
            id,
            source.webhook_id,
            placed.event_id,
            source.provider.name,
            common.type,
            payload,
            {},
            source.organization,
            row["received_at"],
            source.name,
        )
        work = Claimed(
            event.seq, "event", common.task, source.organization, 0, 0, None, None, None, None, None, None, lease
        )
        work.body = event
        return await self._run(tx, work, handler, common.followers)

    async def _run(self, locked: Transaction, work: Claimed, handler: Handler, followers: tuple[str, ...]) -> Answer:
        """Run the handler in the open transaction that locks the work, mark the outcome, and commit. A failure keeps the event."""
        work.started_at = datetime.now(UTC)
        work.db = self._db
        if followers:
            await enqueue_followers(work, followers, locked)
        tx = self._open_tx(locked.conn, work)
        await tx.take_over(locked, SAVEPOINT)
        async with tx:
            failure: Exception
            try:
                async with asyncio.timeout(handler.task.timeout_s):
                    value = await handler.task.run(work, tx)
                gate("inline-before-commit")
                await tx.commit(f"{CHECK_NOW}; {final_statement(work, NOBODY, value)}")
                gate("inline-after-commit")
                return Answer(value.http_status if isinstance(value, Reply) else 200, answers.result(value))
            except OutcomeUnknown:
                raise
            except TimeoutError:
                failure = TimedOut(f"{work.task} ran longer than its time limit")
            except Exception as error:
                failure = error
            if tx.conn.is_closed() or not tx.conn.is_in_transaction():
                raise Unavailable(f"the transaction was lost: {type(failure).__name__}") from failure
            await tx.rollback_to("handler")
            outcome = judge(handler.task, work, failure)
            await settle(tx.conn, work, NOBODY, outcome, critical=handler.task.critical)
            gate("inline-failed")
        return _answer_to(failure, work)

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
            seq,
            "event",
            row["task"],
            row["organization_id"],
            row["attempts"],
            row["crashes"],
            row["max_attempts"],
            None,
            row["lane"],
            None,
            None,
            None,
            lease,
        )
        work.body = stored(event)
        return await self._run(tx, work, handler, ())

    async def _wait(self, seq: int) -> Answer:
        """Wait up to `WAIT_S` seconds for the result of a running event. After that, ask the sender to retry."""
        ended = await self._waiting.until_ended(seq)
        return answers.still_running() if ended is None else answers.first_result(ended)


class KnownEvent(OncewardError):
    """The event is a duplicate: it was stored before."""

    def __init__(self, stored: Stored) -> None:
        super().__init__(stored.seq)
        self.stored = stored


def _answer_to(failure: Exception, work: Claimed) -> Answer:
    error = describe(failure)
    log_fields = {"message": loggable(error["message"]), "at": own_frame(error.get("stack") or [])}
    if "hint" in error:
        log_fields["fix"] = error["hint"]
    log.warning("handler.failed", id=work.id, task=work.task, error=error["type"], **log_fields)
    match failure:
        case Permanent():
            status = failure.status if failure.status is not None and 400 <= failure.status < 500 else 400
            reason = "payload_invalid" if type(failure) is not Permanent else "refused"
            return Answer(status, answers.refusal(work.id, reason, failure.result))
        case Snooze():
            return Answer(200, answers.ACCEPTED)
        case _:
            return answers.failed(work.id)
