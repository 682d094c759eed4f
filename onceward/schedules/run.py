"""One run of a schedule, as its function sees it: it reads rows, does items and records their outcomes.

    @app.cron("0 2 * * *")
    async def expire_access(run: Run) -> None:
        rows = await run.fetch("select id, organization_id from enrolments where ends_at <= onceward.now()")
        await run.each(rows, expire_one)

Each item has a transaction of its own, which also marks the item as done. If an item fails, the failure is recorded and
the run continues. A run that was interrupted does only the remaining items when it is repeated. A worker that has lost
the run to another one (because it stalled) marks nothing, commits nothing and does not change the record.
"""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, get_type_hints
from uuid import UUID

import asyncpg
import structlog

from onceward.background.unclosed import Unclosed
from onceward.db import OUTAGE, Cause, Database, OutcomeUnknown, Transaction, Unavailable
from onceward.db.lost import is_gone
from onceward.errors import OncewardError
from onceward.schedules.batches import Batches, BatchFunction, BatchResult, FailureHook, mark_batch
from onceward.schedules.run_parts import Counts, Parts
from onceward.statements import named, read_statement
from onceward.work import Claimed, Superseded
from onceward.work.gate import gate
from onceward.work.leaks import failure_of, leaked
from onceward.work.settle import describe

log = structlog.get_logger(__name__)

MARK = "select verdict, earlier from onceward.mark_item($1, $2, $3, $4, $5, $6, $7, $8)"
HELD = "select onceward.holds_run($1, $2)"
DONE = "select key, run_id, outcome from onceward.run_items where scope = $1 and step = $2 and outcome <> 'failed'"
MARKED = read_statement("schedules", "count_items")
PROGRESS = named(read_statement("schedules", "save_progress"))
FAILED = read_statement("schedules", "list_failed_items")
PROGRESS_EVERY_S = 1.0


class Skip(OncewardError):
    """An item's function raises this to roll back the item and count it as skipped."""


@dataclass(frozen=True, slots=True)
class Failure:
    """An item that failed, with its error as text."""

    step: str
    key: str
    organization: UUID | None
    error: str


def _text(row: Any) -> str:
    # `Failed` is not the name of an exception: the function itself said what went wrong.
    return str(row["message"]) if row["type"] == "Failed" else f"{row['type']}: {row['message']}"


class _DoneAlready(OncewardError):
    """The item is done already; this transaction is rolled back.

    `earlier` is the item's outcome if an earlier attempt of the same run did it.
    """

    def __init__(self, earlier: str | None) -> None:
        super().__init__(earlier)
        self.earlier = earlier


class _ItemFailed(OncewardError):
    """The item's own code failed with an error that could also mean a broken database connection."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(error)
        self.error = error


class Run:
    """The argument of a schedule's function. `due_at` is the planned time of the run, even if it starts later."""

    def __init__(
        self,
        work: Claimed,
        *,
        schedule: str,
        due_at: datetime,
        scope: int,
        resumed: bool,
        on_progress: Callable[[Run], None] | None = None,
    ) -> None:
        self._work = work
        self._db: Database = work.db
        self._scope = scope
        self._resumed = resumed
        self._on_progress = on_progress
        self._saved_at = time.monotonic()
        self._steps: dict[str, int] = {}
        self.schedule = schedule
        self.due_at = due_at
        self.counts = Counts()
        self._parts = Parts()
        self.total: int | None = None
        """The number of items passed to `each` so far, if known; used by the progress bar."""

    @property
    def id(self) -> int:
        return self._work.id

    @property
    def attempt(self) -> int:
        """The number of this attempt, from 1. An attempt after a crash counts too."""
        return self._work.attempts + self._work.crashes + 1

    def key(self, action: str) -> str:
        """Return `run:<id>:<action>`, an idempotency key for calls to other services. It is the same on every
        attempt."""
        return Cause("run", self.id).key(action)

    # -- reading and writing ----------------------------------------------------------------------------------------

    async def fetch(self, query: str, *args: Any) -> list[asyncpg.Record]:
        """Read with the rights of the engine: rows of all organizations."""
        return await self._db.fetch(query, *args)

    async def fetchval(self, query: str, *args: Any) -> Any:
        return await self._db.fetchval(query, *args)

    @asynccontextmanager
    async def transaction(self, *, organization: UUID | None = None) -> AsyncGenerator[Any]:
        """Open a transaction for one organization or for the platform, with this run as its cause.

        It commits only while this worker holds the run; otherwise it raises `Superseded`.
        """
        async with self._transaction(organization) as tx:
            yield tx
            if not await tx.fetchval(HELD, self.id, self._work.lease):
                raise Superseded

    @asynccontextmanager
    async def _transaction(self, organization: UUID | None) -> AsyncGenerator[Any]:
        async with self._db.acquire() as conn:
            tx: Transaction = self._work.open_tx(conn, self._work)
            tx.organization = organization
            tx.cause = Cause("run", self.id)
            async with tx:
                yield tx
                gate("item-before-commit")
            gate("item-after-commit")

    async def failures(self, *, most: int = 100) -> list[Failure]:
        """Return items of this run that failed, in all its attempts, the oldest first."""
        rows = await self._db.fetch(FAILED, [self.id], most)
        return [Failure(row["step"], row["key"], row["organization_id"], _text(row)) for row in rows]

    # -- items --------------------------------------------------------------------------------------------------------

    async def each(
        self,
        items: Iterable[Any] | AsyncIterable[Any],
        function: Callable[..., Any],
        *,
        concurrency: int = 1,
        key: Callable[[Any], object] | None = None,
        organization: Callable[[Any], UUID | None] | None = None,
        name: str | None = None,
    ) -> Counts:
        """Call `function(item, tx)` for each item, each in a transaction of its own.

        `key` returns the key of an item (default: its `id`); a repeated run skips the items that are done.
        `organization` returns the organization that the transaction acts for (default: the item's `organization_id`).
        Raise `Skip` to count an item as skipped.
        """
        if concurrency < 1:
            raise ValueError(f"concurrency must be at least 1, not {concurrency}")
        step = self._step(name or getattr(function, "__name__", "each"))
        if isinstance(items, (list, tuple)):
            self.total = (self.total or 0) + len(items)  # pyright: ignore[reportUnknownArgumentType]
        done: dict[str, tuple[int, str]] = {}
        if self._resumed:
            rows = await self._db.fetch(DONE, self._scope, step)
            done = {row["key"]: (row["run_id"], row["outcome"]) for row in rows}
        each = _Each(self, step, function, key or item_key, organization or item_organization, done)
        before = replace(self.counts)
        await each.all(items, concurrency)
        await self._count_earlier(step, before)
        return self.counts

    async def each_batch(
        self,
        items: Iterable[Any] | AsyncIterable[Any],
        function: BatchFunction,
        *,
        size: int = 1000,
        key: Callable[[Any], object] | None = None,
        organization: Callable[[Any], UUID | None] | None = None,
        name: str | None = None,
        on_failed: FailureHook | None = None,
    ) -> Counts:
        """Call `function(items, tx)` for up to `size` consecutive items of one organization at a time, in one
        transaction.

        Every item has its own mark, outcome and error, as with `each`. The function may return a `BatchResult` that
        names items that were skipped or failed. A batch that raises is split until the items at fault are alone;
        `on_failed(item, error)` is called for each of these after its failure was recorded.
        """
        if size < 1:
            raise ValueError(f"size must be at least 1, not {size}")
        batches = Batches(
            run=self,
            step=self._step(name or getattr(function, "__name__", "each_batch")),
            call=function,
            size=size,
            key=key or item_key,
            organization=organization or item_organization,
            on_failed=on_failed,
        )
        if isinstance(items, (list, tuple)):
            self.total = (self.total or 0) + len(items)  # pyright: ignore[reportUnknownArgumentType]
        before = replace(self.counts)
        await batches.all(items)
        await self._count_earlier(batches.step, before)
        return self.counts

    async def _count_earlier(self, step: str, before: Counts) -> None:
        """Count what earlier attempts of this run finished in a step, and save the counts."""
        if self._resumed:
            # Items that an earlier attempt finished may no longer be among the items: the marks count them all.
            self.counts = before
            rows = await self._db.fetch(MARKED, self._scope, step, self.id)
            for row in rows:
                self.counts.add(row["outcome"], row["items"])
            self._parts.recount(step, rows)
        await self.save_progress()

    async def do_batch(
        self, step: str, items: Mapping[str, Any], call: BatchFunction, organization: UUID | None
    ) -> dict[str, str]:
        """Mark and do the items of a batch in one transaction, and return the outcome of each item of this run."""
        lease = self._work.lease
        async with self._transaction(organization) as tx:
            keys = list(items)
            done = await mark_batch(
                tx, scope=self._scope, step=step, keys=keys, run=self.id, lease=lease, organization=organization
            )
            left = {key: item for key, item in items.items() if key not in done}
            result = (await _call(call, list(left.values()), tx) if left else None) or BatchResult()
            outcomes = dict.fromkeys(left, "success")
            outcomes |= dict.fromkeys(map(str, result.skipped), "skipped")
            failed = {str(key): text for key, text in result.failed.items()}
            outcomes |= dict.fromkeys(failed, "failed")
            if unknown := outcomes.keys() - left.keys():
                raise ValueError(f"the result names items that are not in the batch: {', '.join(sorted(unknown)[:5])}")
            skipped = [key for key, outcome in outcomes.items() if outcome == "skipped"]
            if skipped or failed:
                correct = "select onceward.correct_items($1, $2, $3, $4, $5, $6, $7)"
                await tx.execute(correct, self._scope, step, self.id, lease, skipped, [*failed], [*failed.values()])
        return outcomes | done

    async def record_failure(self, step: str, key: str, error: BaseException, organization: UUID | None) -> str:
        """Record the failure of an item whose transaction was rolled back, and return its outcome."""
        cause = error.error if isinstance(error, _ItemFailed) else error
        return await self._record_failure(step, key, cause, organization)

    def _step(self, name: str) -> str:
        """Return the name of the step. A second `each` with the same function is a separate step."""
        self._steps[name] = self._steps.get(name, 0) + 1
        return name if self._steps[name] == 1 else f"{name}#{self._steps[name]}"

    async def count_many(self, step: str, organization: UUID | None, outcomes: Iterable[str]) -> None:
        """Count items of one organization and save the progress about once a second."""
        for outcome in outcomes:
            if outcome != "before":
                self.counts.add(outcome)
                self._parts.add(step, organization, outcome)
        if self._on_progress is not None:
            self._on_progress(self)
        if time.monotonic() - self._saved_at > PROGRESS_EVERY_S:
            self._saved_at = time.monotonic()
            await self.save_progress()

    async def save_progress(self, tx: Transaction | None = None) -> None:
        """Write the counts. Raise `Superseded` if this worker no longer holds the run."""
        c = self.counts
        parts, arguments = self._parts.unsaved()
        values = PROGRESS.values(
            id=self.id,
            lease=self._work.lease,
            processed=c.processed,
            succeeded=c.succeeded,
            failed=c.failed,
            skipped=c.skipped,
            schedule=self.schedule,
            **arguments,
        )
        if await (tx or self._db).fetchval(PROGRESS.text, *values) is None:
            raise Superseded
        self._parts.saved(parts)

    async def do_item(self, step: str, key: str, item: Any, call: Callable[..., Any], organization: UUID | None) -> str:
        """Mark and do one item in one transaction. The mark comes first, so that another worker waits for this one."""
        try:
            async with self._transaction(organization) as tx:
                await self._mark(tx, step, key, "success", organization)
                await _call(call, item, tx)
            return "success"
        except _DoneAlready as done:
            return done.earlier or "before"
        except Skip:
            return await self._record(step, key, "skipped", organization)
        except _ItemFailed as failed:
            return await self._record_failure(step, key, failed.error, organization)
        except (Superseded, *OUTAGE):
            raise  # the database is unavailable or another worker holds the run: not a failure of the item
        except OutcomeUnknown:
            # If the mark exists, this attempt committed the item, and doing it again has no effect.
            outcome = await self.do_item(step, key, item, call, organization)
            return "success" if outcome == "before" else outcome
        except Exception as error:
            return await self._record_failure(step, key, error, organization)

    async def _record_failure(self, step: str, key: str, error: BaseException, organization: UUID | None) -> str:
        log.warning("item.failed", schedule=self.schedule, run=self.id, step=step, error=type(error).__name__)
        return await self._record(step, key, "failed", organization, describe(error))

    async def _record(
        self, step: str, key: str, outcome: str, organization: UUID | None, error: dict[str, Any] | None = None
    ) -> str:
        """Mark an item after its transaction was rolled back; return its outcome."""
        try:
            await self._mark(self._db, step, key, outcome, organization, error)
        except _DoneAlready as done:
            return done.earlier or "before"
        return outcome

    async def _mark(
        self,
        conn: Transaction | Database,
        step: str,
        key: str,
        outcome: str,
        organization: UUID | None,
        error: dict[str, Any] | None = None,
    ) -> None:
        lease = self._work.lease
        row = await conn.fetchrow(MARK, self._scope, step, key, self.id, lease, outcome, error, organization)
        assert row is not None
        if row["verdict"] == "lost":
            raise Superseded
        if row["verdict"] == "done":
            raise _DoneAlready(row["earlier"])


async def _call(call: Callable[..., Any], item: Any, tx: Transaction) -> Any:
    """Call the item's function. An `OSError` of its code (a file, a socket, a timeout) is not a database outage.

    `sys.exit()` in a task of its own would end the process, and a leaked cancellation would lose the item in silence.
    """
    try:
        return await call(item, tx)
    except OUTAGE as error:
        if isinstance(error, asyncpg.PostgresConnectionError | Unavailable) or is_gone(tx.conn):
            raise
        raise _ItemFailed(error) from error
    except Exception:
        raise
    except BaseException as error:
        failure = failure_of(error)
        raise failure from failure.__cause__


class _Each:
    """One call of `run.each`: does the items, at most `concurrency` at a time."""

    def __init__(
        self,
        run: Run,
        step: str,
        function: Callable[..., Any],
        key: Callable[[Any], object],
        organization: Callable[[Any], UUID | None],
        done: Mapping[str, tuple[int, str]],
    ) -> None:
        self._run = run
        self._step = step
        self._call = caller(function)
        self._key = key
        self._organization = organization
        self._done = done

    async def all(self, items: Iterable[Any] | AsyncIterable[Any], concurrency: int) -> None:
        try:
            await self._all(items, concurrency)
        except ExceptionGroup:
            raise
        except BaseExceptionGroup as group:
            # A signal between parts of Onceward, such as the crash of a test: in a group nobody would recognize it.
            raise next(each for each in group.exceptions if not isinstance(each, Exception)) from None

    async def _all(self, items: Iterable[Any] | AsyncIterable[Any], concurrency: int) -> None:
        slots = asyncio.Semaphore(concurrency)
        lost: list[asyncio.Task[None]] = []

        def note(task: asyncio.Task[None]) -> None:
            if task.cancelled():
                lost.append(task)

        async with asyncio.TaskGroup() as group:

            async def one(item: Any) -> None:
                try:
                    await self._one(item)
                finally:
                    slots.release()

            async for item in _iterate(items):
                await slots.acquire()
                group.create_task(Unclosed(one(item), leaked)).add_done_callback(note)
        if lost:  # their functions cancelled their own tasks, which the group takes for an end like any other
            raise leaked(asyncio.CancelledError())

    async def _one(self, item: Any) -> None:
        key = str(self._key(item))
        before = self._done.get(key)
        organization = self._organization(item)
        if before is None:
            outcome = await self._run.do_item(self._step, key, item, self._call, organization)
            if outcome != "before":
                await self._run.count_many(self._step, organization, (outcome,))
        elif before[0] == self._run.id:
            # This run did the item before it was interrupted, so it counts the item. Items of another run are not
            # counted here.
            await self._run.count_many(self._step, organization, (before[1],))


async def _iterate(items: Iterable[Any] | AsyncIterable[Any]) -> AsyncGenerator[Any]:
    if isinstance(items, AsyncIterable):
        async for item in items:
            yield item
    else:
        for item in items:
            yield item


def item_key(item: Any) -> object:
    """Return the default key of an item: its `id`, or the item itself if it is a simple value."""
    if isinstance(item, (str, int, UUID)):
        return item
    key = _read(item, "id")
    if key is None:
        raise ValueError(f"run.each: an item of type {type(item).__name__} has no `id`; pass key=lambda item: ...")
    return key


def item_organization(item: Any) -> UUID | None:
    organization = _read(item, "organization_id")
    return UUID(organization) if isinstance(organization, str) else organization


def _read(item: Any, name: str) -> Any:
    if isinstance(item, Mapping):
        return item.get(name)  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
    if isinstance(item, asyncpg.Record):
        return item.get(name)
    return getattr(item, name, None)


def caller(function: Callable[..., Any]) -> Callable[[Any, Transaction], Any]:
    """Return a function that calls `function` with the item, and with the transaction if it has a parameter for one."""
    if not inspect.iscoroutinefunction(function):
        raise TypeError(f"run.each: {getattr(function, '__name__', function)!s} must be `async def`")
    try:
        hints = get_type_hints(function)
    except NameError as error:
        raise TypeError(f"run.each: annotation {error.name!r} of {function.__name__} cannot be resolved") from None
    tx_parameter: str | None = None
    for name in inspect.signature(function).parameters:
        annotation = hints.get(name)
        if name == "tx" or (isinstance(annotation, type) and issubclass(annotation, Transaction)):
            tx_parameter = name

    async def call(item: Any, tx: Transaction) -> Any:
        return await (function(item) if tx_parameter is None else function(item, **{tx_parameter: tx}))

    return call
