"""The engine of one process: the database, what it can run, and the ways in from outside a handler."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Coroutine, Sequence
from contextlib import asynccontextmanager
from typing import Any
from uuid import UUID

from onceward import limits, workflows
from onceward.db import Cause, Connection, Database
from onceward.messages import Templates
from onceward.outbox import Catalogue
from onceward.tx import Tx
from onceward.work import (
    Claimed,
    Enqueued,
    Finished,
    GroupCommit,
    Item,
    JobTask,
    Order,
    Registry,
    Waker,
    insert,
    insert_alike,
    item,
    queue_of,
)

FINISHED = """
select work_id, outcome, result, error, finished_at
  from onceward.attempts
 where work_id = $1 and outcome in ('success', 'failed', 'cancelled', 'dead_letter', 'discarded', 'unknown')
 order by finished_at desc limit 1
"""


"""Rows per statement in a bulk enqueue: enough to make the round trip cheap, few enough to keep arrays small."""


class Engine:
    """Made by the runtime, or by hand in tests and scripts."""

    def __init__(
        self, db: Database, registry: Registry, *, waker: Waker | None = None, event_types: Catalogue | None = None
    ) -> None:
        self.db = db
        self.registry = registry
        self.event_types = event_types or Catalogue()
        self.waker = waker or Waker(db)
        self.wakes_live = False
        """Whether commits wake those who serve live queries; without it they look by themselves ten times a second."""
        self._commits: GroupCommit[Item, Enqueued] = GroupCommit(self._flush)
        self.tiers = limits.Tiers()
        """How many at once each tier allows; the runtime sets it from the settings."""
        self.early: limits.EarlyRefusal | None = None
        """Redis or Valkey, where there is one."""
        self._notes: set[asyncio.Task[None]] = set()
        self._starts: GroupCommit[workflows.Wanted, workflows.Started] = GroupCommit(self._flush_starts)
        self._templates: Templates | None = None

    async def start(self) -> None:
        await self.waker.start()

    async def stop(self) -> None:
        await self._commits.close()
        await self._starts.close()
        if self._notes:
            await asyncio.wait(self._notes, timeout=5)
        await self.waker.stop()

    @property
    def templates(self) -> Templates:
        """The built-in templates and those of the app, read at the first use."""
        if self._templates is None:
            self._templates = Templates(self.registry.template_folders)
        return self._templates

    # -- enqueue outside a transaction -----------------------------------------------------------------------------

    async def enqueue(
        self, what: JobTask | Order, /, *, organization: UUID | None = None, **arguments: Any
    ) -> Enqueued:
        """A job by itself. Callers at the same time share a commit; each returns after it."""
        return await self._commits.submit(item(what, arguments, organization=organization))

    async def enqueue_many(
        self, what: JobTask | Order, arguments: Sequence[dict[str, Any]], /, *, organization: UUID | None = None
    ) -> list[Enqueued]:
        """The same job many times, in one transaction."""
        async with self.db.transaction(role="engine", organization=organization) as tx:
            done = await insert_alike(tx.conn, what, arguments, organization=organization)
        if done:
            self.waker.wake(queue_of(what))
        return done

    async def _flush(self, wanted: Sequence[Item]) -> Sequence[Enqueued]:
        # Sorted by key: two nodes that insert the same keys in different orders would deadlock.
        order = sorted(range(len(wanted)), key=lambda n: wanted[n].options.unique_key or "")
        async with self.db.acquire() as conn:
            if any(each.options.unique_key for each in wanted):
                async with conn.transaction():
                    done = await insert(conn, [wanted[n] for n in order])
            else:
                done = await insert(conn, [wanted[n] for n in order])
        for queue in {each.queue for each in wanted}:
            self.waker.wake(queue)
        placed: list[Enqueued] = [Enqueued(0)] * len(wanted)
        for n, result in zip(order, done, strict=True):
            placed[n] = result
        return placed

    async def start_workflow(
        self,
        what: workflows.WorkflowTask | workflows.Start,
        /,
        *,
        organization: UUID | None = None,
        **arguments: Any,
    ) -> workflows.Started:
        """A workflow by itself. Callers at the same time share a commit; each returns after it."""
        return await self._starts.submit(workflows.wanted(what, arguments, organization=organization))

    async def _flush_starts(self, wanted: Sequence[workflows.Wanted]) -> Sequence[workflows.Started]:
        order = sorted(range(len(wanted)), key=lambda n: wanted[n].key or "")
        async with self.db.acquire() as conn, conn.transaction():
            done = await workflows.insert(conn, [wanted[n] for n in order])
        self.waker.wake(workflows.QUEUE)
        placed = [workflows.Started(0)] * len(wanted)
        for n, result in zip(order, done, strict=True):
            placed[n] = result
        return placed

    def note_refusal(self, refused: limits.LimitReached, metadata: dict[str, Any]) -> None:
        """Write `concurrency_limit_hit`, later: the transaction that was refused still holds its connection."""
        self.later(limits.note_refusal(self.db, refused, metadata=metadata))

    def later(self, what: Coroutine[Any, Any, None]) -> None:
        """Do this beside the caller; it is waited for at the end. Only for what may be lost."""
        note = asyncio.create_task(what)
        self._notes.add(note)
        note.add_done_callback(self._notes.discard)

    # -- transactions -----------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def transaction(self, *, organization: UUID | None = None, cause: Cause | None = None) -> AsyncGenerator[Tx]:
        """A transaction with verbs, outside a handler: an API route, a script, a test."""
        async with self.db.acquire() as conn:
            tx = Tx(conn, self, organization=organization, cause=cause)
            await tx.open()
            try:
                yield tx
            except BaseException:
                await asyncio.shield(tx.rollback())
                raise
            await tx.commit()

    def open_tx(self, conn: Connection, work: Claimed) -> Tx:
        """The transaction of a handler: in its organization, caused by its work."""
        return Tx(conn, self, organization=work.organization, cause=work.cause)

    # -- results -----------------------------------------------------------------------------------------------------

    async def result(self, id: int) -> Finished | None:
        """How the work ended; None while it has not."""
        row = await self.db.fetchrow(FINISHED, id)
        if row is None:
            return None
        return Finished(row["work_id"], row["outcome"], row["result"], row["error"], row["finished_at"])

    async def wait(self, id: int, *, timeout_s: float = 30.0) -> Finished:
        """Wait for the end of a piece of work; raises TimeoutError if it does not come."""
        async with asyncio.timeout(timeout_s):
            pause_s = 0.005
            while (finished := await self.result(id)) is None:
                await asyncio.sleep(pause_s)
                pause_s = min(0.5, pause_s * 1.5)
            return finished
