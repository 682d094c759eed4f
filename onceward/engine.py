"""The engine of one process: the database, the registered tasks, and the methods for callers outside a handler."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Coroutine, Sequence
from contextlib import asynccontextmanager
from typing import Any
from uuid import UUID

from onceward import limits, workflows
from onceward.db import Cause, Connection, Database
from onceward.messages import Templates
from onceward.outbox import Catalogue, Endpoints
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


class Engine:
    """Enqueues work and opens transactions. The process creates one; tests and scripts can create their own."""

    def __init__(
        self, db: Database, registry: Registry, *, waker: Waker | None = None, event_types: Catalogue | None = None
    ) -> None:
        self.db = db
        self.registry = registry
        self.event_types = event_types or Catalogue()
        self.waker = waker or Waker(db)
        self.wakes_live = False
        """Whether each commit wakes the servers of live queries. Otherwise they poll ten times a second."""
        self._commits: GroupCommit[Item, Enqueued] = GroupCommit(self._flush)
        self.tiers = limits.Tiers()
        """The admission slots of each tier. The process sets them from the settings."""
        self.early: limits.EarlyRefusal | None = None
        """Refuses over-limit requests through Redis or Valkey; None if neither is configured."""
        self.endpoints: Endpoints | None = None
        """Manages the endpoints of outbound webhooks. The process sets it; None in an engine without an outbox."""
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
        """Return the built-in templates and those of the app. The first call reads them from disk."""
        if self._templates is None:
            self._templates = Templates(self.registry.template_folders)
        return self._templates

    # -- enqueue outside a transaction -----------------------------------------------------------------------------

    async def enqueue(
        self, what: JobTask | Order, /, *, organization: UUID | None = None, **arguments: Any
    ) -> Enqueued:
        """Enqueue one job in a transaction of its own. Concurrent callers share a commit; each returns after it."""
        return await self._commits.submit(item(what, arguments, organization=organization))

    async def enqueue_many(
        self, what: JobTask | Order, arguments: Sequence[dict[str, Any]], /, *, organization: UUID | None = None
    ) -> list[Enqueued]:
        """Enqueue the same job many times, in one transaction."""
        async with self.db.transaction(role="engine", organization=organization) as tx:
            done = await insert_alike(tx.conn, what, arguments, organization=organization)
        if done:
            self.waker.wake(queue_of(what))
        return done

    async def _flush(self, items: Sequence[Item]) -> Sequence[Enqueued]:
        # Sorted by key: two nodes that insert the same keys in different orders would deadlock.
        order = sorted(range(len(items)), key=lambda n: items[n].options.unique_key or "")
        async with self.db.acquire() as conn:
            if any(each.options.unique_key for each in items):
                async with conn.transaction():
                    done = await insert(conn, [items[n] for n in order])
            else:
                done = await insert(conn, [items[n] for n in order])
        for queue in {each.queue for each in items}:
            self.waker.wake(queue)
        placed: list[Enqueued] = [Enqueued(0)] * len(items)
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
        """Start one workflow in a transaction of its own. Concurrent callers share a commit; each returns after it."""
        return await self._starts.submit(workflows.wanted(what, arguments, organization=organization))

    async def _flush_starts(self, requested: Sequence[workflows.Wanted]) -> Sequence[workflows.Started]:
        order = sorted(range(len(requested)), key=lambda n: requested[n].key or "")
        async with self.db.acquire() as conn, conn.transaction():
            done = await workflows.insert(conn, [requested[n] for n in order])
        self.waker.wake(workflows.QUEUE)
        placed = [workflows.Started(0)] * len(requested)
        for n, result in zip(order, done, strict=True):
            placed[n] = result
        return placed

    def note_refusal(
        self, refused: limits.LimitReached, metadata: dict[str, Any], refusal: limits.Refusal | None = None
    ) -> None:
        """Record `concurrency_limit_hit` in the background: the refused transaction still holds its connection."""
        self.later(limits.note_refusal(self.db, refused, metadata=metadata, refusal=refusal))

    def later(self, what: Coroutine[Any, Any, None]) -> None:
        """Run a coroutine in the background. `stop` waits 5 seconds for it; use it only for work that may be lost."""
        note = asyncio.create_task(what)
        self._notes.add(note)
        note.add_done_callback(self._notes.discard)

    # -- transactions -----------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def transaction(self, *, organization: UUID | None = None, cause: Cause | None = None) -> AsyncGenerator[Tx]:
        """Open a `Tx` outside a handler: in an API route, a script or a test."""
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
        """Return the transaction of a handler, with the organization and the cause of its work item."""
        return Tx(conn, self, organization=work.organization, cause=work.cause)

    # -- results -----------------------------------------------------------------------------------------------------

    async def result(self, id: int) -> Finished | None:
        """Return how the work item ended, or None if it has not finished."""
        row = await self.db.fetchrow(FINISHED, id)
        if row is None:
            return None
        return Finished(row["work_id"], row["outcome"], row["result"], row["error"], row["finished_at"])

    async def wait(self, id: int, *, timeout_s: float = 30.0) -> Finished:
        """Wait until a work item has finished. Raises TimeoutError after `timeout_s` seconds."""
        async with asyncio.timeout(timeout_s):
            pause_s = 0.005
            while (finished := await self.result(id)) is None:
                await asyncio.sleep(pause_s)
                pause_s = min(0.5, pause_s * 1.5)
            return finished
