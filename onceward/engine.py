"""The engine of one process: the database, the registered tasks, and the methods for callers outside a handler."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Iterable, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any, ParamSpec, TypeVar, overload
from uuid import UUID

import asyncpg

from onceward import limits, workflows
from onceward.background import Tasks
from onceward.db import FAILED, Cause, Connection, Database, Unavailable, loudness
from onceward.durations import Duration, in_seconds
from onceward.feature import SealedColumn
from onceward.messages import Templates
from onceward.outbox import Catalogue, Endpoints
from onceward.telemetry import get_logger
from onceward.telemetry.caller import caller_fields
from onceward.trust import RowId, SealedColumns, SecretBox, record_metric
from onceward.tx import Tx
from onceward.work import (
    AppRegistry,
    BoundJob,
    Claimed,
    ConfiguredJob,
    Enqueued,
    Finished,
    GroupCommit,
    Item,
    Waker,
    insert,
    item,
    items,
    positional,
    queues_of,
)

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")

log = get_logger(__name__)

TRANSIENT = ("40001", "40P01", "55P03")
"""Serialization failure, deadlock, lock timeout: the transaction was rolled back, and a repetition may succeed."""

FINISHED = """
select work_id, task, outcome, result, error, finished_at
  from onceward.attempts
 where work_id = $1 and outcome in ('success', 'failed', 'cancelled', 'dead_letter', 'discarded', 'unknown')
 and not exists (select from onceward.work w where w.id = $1 and w.dead_reason is null)
 order by number desc, finished_at desc limit 1
"""


class Engine:
    """Enqueues work and opens transactions. The process creates one; tests and scripts can create their own."""

    def __init__(
        self,
        db: Database,
        registry: AppRegistry,
        *,
        waker: Waker | None = None,
        event_types: Catalogue | None = None,
        box: SecretBox | Callable[[], SecretBox] | None = None,
    ) -> None:
        """`box` encrypts the sealed columns of the app. A function is called when it is first needed."""
        self.db = db
        self.registry = registry
        self.event_types = event_types or Catalogue()
        self.waker = waker or Waker(db)
        self.wakes_live = False
        """Whether each commit wakes the servers of live queries. Otherwise they poll ten times a second."""
        self._commits: GroupCommit[Item, Enqueued[Any]] = GroupCommit(self._flush)
        self.endpoints: Endpoints | None = None
        """Manages the endpoints of outbound webhooks, also those of `tx.publish(url=...)`.

        The outbox of the process sets it.
        """
        self._notes = Tasks("background note")
        self._starts: GroupCommit[workflows.StartRequest, workflows.Started[Any]] = GroupCommit(self._flush_starts)
        self._templates: Templates | None = None
        self.sealed_columns = SealedColumns(registry.sealed, box)

    async def start(self) -> None:
        await self.waker.start()

    async def stop(self) -> None:
        await self._commits.close()
        await self._starts.close()
        await self._notes.wait(timeout_s=5)
        await self.waker.stop()

    @property
    def templates(self) -> Templates:
        """Return the built-in templates and those of the app. The first call reads them from disk."""
        if self._templates is None:
            self._templates = Templates(self.registry.template_folders)
        return self._templates

    # -- encrypted columns ------------------------------------------------------------------------------------------

    def seal(self, column: SealedColumn, plain: bytes, *, row: RowId) -> bytes:
        """Encrypt a value for exactly this row of a column that the app declares (`Onceward(..., sealed=[column])`)."""
        return self.sealed_columns.seal(column, plain, row=row)

    def unseal(self, column: SealedColumn, sealed: bytes, *, row: RowId) -> bytes:
        """Decrypt a value of this row.

        Raises `SecretError` if no key of this process fits, or if the value was changed.
        """
        return self.sealed_columns.unseal(column, sealed, row=row)

    # -- enqueue outside a transaction -----------------------------------------------------------------------------

    async def enqueue(self, job: ConfiguredJob[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Enqueued[R]:
        """Enqueue one job in a transaction of its own. Concurrent callers share a commit; each returns after it."""
        if args:
            raise positional(job.name)
        return await self._commits.submit(item(job, kwargs))

    async def enqueue_many(self, calls: Iterable[BoundJob[R]], /) -> list[Enqueued[R]]:
        """Enqueue calls of any mix of jobs, in one transaction: `[pack.call(order=1), pack.call(order=2)]`."""
        calls = list(calls)
        async with self.db.transaction(role="engine") as tx:
            done = await insert(tx.conn, items(calls), count=len(calls))
        for queue in queues_of(calls):
            self.waker.wake(queue)
        return done

    async def _flush(self, jobs: Sequence[Item]) -> Sequence[Enqueued[Any]]:
        # Sorted by key: two nodes that insert the same keys in different orders would deadlock.
        order = sorted(range(len(jobs)), key=lambda n: jobs[n].options.unique_key or "")
        async with self.db.acquire() as conn:
            if any(each.options.unique_key for each in jobs):
                async with conn.transaction():
                    done = await insert(conn, [jobs[n] for n in order])
            else:
                done = await insert(conn, [jobs[n] for n in order])
        for queue in {each.queue for each in jobs}:
            self.waker.wake(queue)
        placed: list[Enqueued[Any]] = [Enqueued(0)] * len(jobs)
        for n, result in zip(order, done, strict=True):
            placed[n] = result
        return placed

    async def start_workflow(
        self, workflow: workflows.ConfiguredWorkflow[P, R], /, *args: P.args, **kwargs: P.kwargs
    ) -> workflows.Started[R]:
        """Start one workflow in a transaction of its own. Concurrent callers share a commit; each returns after it."""
        if args:
            raise positional(workflow.name)
        return await self._starts.submit(workflows.start_request(workflow, kwargs))

    async def _flush_starts(self, requested: Sequence[workflows.StartRequest]) -> Sequence[workflows.Started[Any]]:
        order = sorted(range(len(requested)), key=lambda n: requested[n].key or "")
        async with self.db.acquire() as conn, conn.transaction():
            done = await workflows.insert(conn, [requested[n] for n in order])
        self.waker.wake(workflows.QUEUE)
        placed: list[workflows.Started[Any]] = [workflows.Started(0)] * len(requested)
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
        self._notes.start(what)

    # -- transactions -----------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def transaction(self, *, organization: UUID | None = None, cause: Cause | None = None) -> AsyncGenerator[Tx]:
        """Open a `Tx` outside a handler: in an API route, a script or a test."""
        async with self.db.acquire() as conn, Tx(conn, self, organization=organization, cause=cause) as tx:
            yield tx

    async def transact(
        self,
        run: Callable[[Tx], Awaitable[T]],
        /,
        *,
        organization: UUID | None = None,
        attempts: int = 3,
        first_pause: Duration = 0.1,
        user_id: UUID | None = None,
        subject: str | None = None,
    ) -> T:
        """Run a function in a transaction, and again after a transient error (deadlock, no connection), with growing
        pauses.

        After the last attempt nothing was written: `rpc_retry_exhausted` and `job_rollback` are recorded in
        `system_metrics` with the user and the subject, and the last error is raised. A commit whose outcome is unknown
        is not tried again.
        """
        if attempts < 1:
            raise ValueError(f"attempts must be at least 1, not {attempts}")
        for attempt in range(1, attempts + 1):
            try:
                async with self.transaction(organization=organization) as tx:
                    return await run(tx)
            except (asyncpg.PostgresError, Unavailable) as error:
                if not isinstance(error, Unavailable) and error.sqlstate not in TRANSIENT:
                    raise
                if attempt == attempts:
                    await self._note_rollback(error, attempts, user_id=user_id, subject=subject)
                    raise
                await asyncio.sleep(in_seconds(first_pause) * 2 ** (attempt - 1))
        raise AssertionError("unreachable")

    async def _note_rollback(
        self, error: Exception, attempts: int, *, user_id: UUID | None, subject: str | None
    ) -> None:
        """Record that a transaction was given up. During an outage of the database only the log has it."""
        last_error = type(error).__name__
        log.error("transaction.given_up", error=last_error, attempts=attempts)
        metadata = {
            "reason": "retries_exhausted",
            "attempts": attempts,
            "last_error": last_error,
            "rollback_timestamp": datetime.now(UTC).isoformat(),
            **{name: value for name, value in caller_fields().items() if name in ("request", "user", "tier")},
        }
        try:
            for event in ("rpc_retry_exhausted", "job_rollback"):
                await record_metric(self.db, event, user_id=user_id, subject=subject, metadata=metadata)
        except FAILED as failure:
            log.log(loudness(failure), "metric.lost", error=type(failure).__name__)

    def open_tx(self, conn: Connection, work: Claimed) -> Tx:
        """Return the transaction of a handler, with the organization and the cause of its work item."""
        patient = self.registry.idle_limits_s
        idle_limit_s = patient.get(work.task) if patient else None
        return Tx(conn, self, organization=work.organization, cause=work.cause, idle_limit_s=idle_limit_s)

    # -- results -----------------------------------------------------------------------------------------------------

    @overload
    async def result(self, work: Enqueued[R] | workflows.Started[R], /) -> Finished[R] | None: ...
    @overload
    async def result(self, work: int, /) -> Finished[Any] | None: ...
    async def result(self, work: Enqueued[Any] | workflows.Started[Any] | int, /) -> Finished[Any] | None:
        """Return how a job or workflow ended, or None if it has not finished.

        The result has the type that the function returns. Raises `ResultInvalid` if the stored result does not fit it.
        """
        row = await self.db.fetchrow(FINISHED, work if isinstance(work, int) else work.id)
        if row is None:
            return None
        result = row["result"]
        task = self.registry.tasks.get(row["task"])
        if task is not None and task.load_result is not None and row["outcome"] == "success":
            result = task.load_result(result)
        return Finished(row["work_id"], row["outcome"], result, row["error"], row["finished_at"])

    @overload
    async def wait(self, work: Enqueued[R] | workflows.Started[R], /, *, timeout: Duration = 30.0) -> Finished[R]: ...
    @overload
    async def wait(self, work: int, /, *, timeout: Duration = 30.0) -> Finished[Any]: ...
    async def wait(
        self, work: Enqueued[Any] | workflows.Started[Any] | int, /, *, timeout: Duration = 30.0
    ) -> Finished[Any]:
        """Wait until a job or workflow has finished. Raises TimeoutError after `timeout` (seconds or timedelta)."""
        async with asyncio.timeout(in_seconds(timeout)):
            pause_s = 0.005
            while (finished := await self.result(work)) is None:
                await asyncio.sleep(pause_s)
                pause_s = min(0.5, pause_s * 1.5)
            return finished
