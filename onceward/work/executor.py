"""Run one piece of work: start the handler, judge its result, settle the outcome."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, TypeGuard

import asyncpg
import structlog

from onceward.db import (
    Connection,
    Database,
    OutcomeUnknown,
    RoleChanged,
    Transaction,
    TransactionEnded,
    Unavailable,
    lost_connection,
    note_lost_connection,
    quote,
)
from onceward.db.transaction import ENDED
from onceward.trust.metrics_events import record_metric
from onceward.work.claimed import Claimed
from onceward.work.end_hooks import RunHook, defer_end_hook, run_end_hook
from onceward.work.failure_text import loggable, own_frame
from onceward.work.forms import wait_for_version
from onceward.work.gate import gate
from onceward.work.leaks import failure_of
from onceward.work.leases import Leases
from onceward.work.outcomes import (
    Again,
    Cancelled,
    Crashed,
    Dead,
    Indeterminate,
    NotKnown,
    Outcome,
    PayloadInvalid,
    Permanent,
    Retry,
    Settled,
    Snooze,
    Stopped,
    Succeeded,
    Superseded,
    TimedOut,
)
from onceward.work.processes import HandlerProcesses
from onceward.work.record import Written, record
from onceward.work.settle import Acknowledger, describe, final_statement, result_json, settle
from onceward.work.sqlstates import LOST_LEASE
from onceward.work.task import BatchResults, EndHook, Task
from onceward.work.threads import HandlerThreads

log = structlog.get_logger(__name__)

TRANSIENT = ("40001", "40P01")
AFTER_LOST_S = (0.05, 1.0, 5.0)
"""Delays before work that lost its connection runs again, by the number of earlier crashes."""
Opener = Callable[[Connection, Claimed], Transaction]


class Carried(NamedTuple):
    """A connection that is passed to the next piece of work, with the transaction of that work already open."""

    work: Claimed
    conn: Connection
    tx: Transaction


class Seat(Protocol):
    """A place that runs one piece of work after another. It can cancel a handler, and knows the reason and the next work.

    Only a handler is ever cancelled. Settling is not: it may take as long as the database is unavailable.
    """

    carried: Carried | None

    def begins(self, timeout_s: float | None) -> None:
        """A handler starts: from now on it may be cancelled, at the latest after `timeout_s`."""
        ...

    def ended(self) -> None:
        """The handler has returned or raised: from now on nothing may cancel this task."""
        ...

    def failure(self, error: BaseException) -> BaseException:
        """Return why the handler failed: the reason of its cancellation, or its error. From now on nothing may cancel this task.

        Raise the error again if the whole worker is stopping.
        """
        ...

    def runs(self, works: Sequence[Claimed]) -> None:
        """These members of a batch share the next transaction: each of them may be cancelled."""
        ...

    @property
    def cancelled(self) -> Collection[int]:
        """Return the ids of the members of the batch that operators cancelled."""
        ...

    def following(self) -> Claimed | None:
        """Return the work that runs here next, if it is ready and needs a transaction. The seat must then run it."""
        ...


class OnlyOne:
    """A seat for one piece of work that nothing cancels."""

    carried: Carried | None = None

    def begins(self, timeout_s: float | None) -> None: ...

    def ended(self) -> None: ...

    def failure(self, error: BaseException) -> BaseException:
        return failure_of(error)

    def runs(self, works: Sequence[Claimed]) -> None: ...

    @property
    def cancelled(self) -> Collection[int]:
        return ()

    def following(self) -> Claimed | None:
        return None


ONLY_ONE = OnlyOne()


@dataclass(frozen=True, slots=True)
class Host:
    """The worker's resources, for a task that opens its own transactions and settles its own work."""

    db: Database
    worker: int
    open_tx: Opener
    wake: Callable[[str], None]
    threads: HandlerThreads
    processes: HandlerProcesses


class Executor:
    """Runs claimed work with the worker's pool, transaction opener and acknowledger."""

    def __init__(
        self,
        db: Database,
        *,
        worker: int,
        acks: Acknowledger,
        leases: Leases,
        open_tx: Opener,
        wake: Callable[[str], None] = lambda _queue: None,
        hooks: Mapping[str, EndHook] | None = None,
        threads: HandlerThreads | None = None,
        processes: HandlerProcesses | None = None,
    ) -> None:
        self._db = db
        self._hooks: Mapping[str, EndHook] = {} if hooks is None else hooks
        self._worker = worker
        self._acks = acks
        self._leases = leases
        self._open_tx = open_tx
        self._host = Host(db, worker, open_tx, wake, threads or HandlerThreads(), processes or HandlerProcesses())

    async def run(self, task: Task, work: Claimed, seat: Seat = ONLY_ONE) -> str:
        """Run the task and settle the work. Return the name of the outcome, for metrics."""
        work.began_s = time.monotonic()
        work.host = self._host
        work.open_tx = self._open_tx
        try:
            if task.transactional:
                return await self._in_transaction(task, work, seat)
            seat.begins(task.timeout_s)
            try:
                result = await task.run(work, None)
            except (Settled, Superseded):
                raise
            except BaseException as error:
                return await self._settle(task, work, judge(task, work, seat.failure(error)))
            seat.ended()
            gate("after-run")
            if task.name in self._hooks or not self._acks.takes(work, outside=task.outside):
                return await self._settle(task, work, Succeeded(result))
            self._acks.add(work, result)
            if self._acks.congested:
                await self._acks.settle_down()
            return "success"
        except Settled as settled:
            self._leases.done(work)
            return settled.outcome
        except Superseded:
            self._leases.done(work)
            log.info("work.superseded", kind=work.kind, id=work.id, task=work.task)
            return "superseded"

    async def _in_transaction(self, task: Task, work: Claimed, seat: Seat) -> str:
        """Commit effects and success together. The same round trip opens the transaction of the next work."""
        carried, seat.carried = seat.carried, None
        try:
            conn = await self._db.borrow() if carried is None else carried.conn
        except Unavailable as error:
            return await self._settle(task, work, judge(task, work, error))
        tx = self._open_tx(conn, work) if carried is None else carried.tx
        begun = committing = False
        seat.begins(task.timeout_s)  # the wait for a free connection does not count towards the timeout
        try:
            if not tx.is_open:
                await tx.open()
            begun = True
            try:
                gate("after-begin")
                try:
                    result = await task.run(work, tx)
                finally:
                    seat.ended()  # before the rollback, which nothing may interrupt
                gate("before-commit")
                committing = True
                last = final_statement(work, self._worker, result)
                hook = self._hooks.get(work.task)
                if hook is not None:
                    await self._commit_with_hook(tx, [work], hook, last)
                elif self._db.crowded or (following := seat.following()) is None:
                    await tx.commit(last)
                else:
                    # An error while the next transaction opens looks like a failure of this work, although this work has
                    # committed. The commit cleared the lease, so settling that failure writes nothing.
                    then = self._open_tx(conn, following)
                    await tx.commit(last, then=then)
                    seat.carried = Carried(following, conn, then)
            finally:
                if tx.is_open:
                    await asyncio.shield(tx.rollback())
            self._leases.done(work)
            gate("after-commit")
            return "success"
        except BaseException as error:
            # After an unknown outcome: if the commit happened, the row and its lease are gone, and settling writes nothing.
            # Only the acknowledging statement counts: an error in the handler's own statements is its failure.
            if committing and getattr(error, "sqlstate", None) == LOST_LEASE:
                raise Superseded from error
            if begun:
                note_lost_connection(error, conn)
            failure = _ended(tx, seat.failure(error))
        finally:
            seat.ended()
            if seat.carried is None:
                await self._db.give_back(conn)
        return await self._settle(task, work, judge(task, work, failure))

    async def _commit_with_hook(self, tx: Transaction, works: list[Claimed], hook: EndHook, last: str) -> None:
        """Acknowledge the work, run its on_end hook, and commit both."""
        await tx.hand_over(last)
        for work in works:
            await run_end_hook(tx, work, self._worker, hook, wake=self._host.wake)
        await tx.commit()

    async def run_batch(self, task: Task, works: list[Claimed], seat: Seat = ONLY_ONE) -> list[str]:
        """Run several pieces of work in one commit and return the name of the outcome of each.

        Work that `task.prepare` refuses is settled alone. If the rest fails as a batch, each runs alone, so that only
        the bad one fails.
        """
        now = time.monotonic()
        refused: list[str] = []
        accepted: list[Claimed] = []
        for work in works:
            work.began_s = now
            try:
                if task.prepare is not None:
                    work.prepared = task.prepare(work)
                accepted.append(work)
            except Exception as error:
                refused.append(await self._settle(task, work, judge(task, work, error)))
        return refused + (await self._run_batch(task, accepted, seat) if accepted else [])

    async def _run_batch(self, task: Task, works: list[Claimed], seat: Seat) -> list[str]:
        committing = False
        tx: Transaction | None = None
        try:
            async with self._db.acquire() as conn:
                tx = self._open_tx(conn, works[0])
                seat.runs(works)
                seat.begins(task.timeout_s)
                try:
                    async with tx:
                        try:
                            results = await task.run(works, tx)
                        finally:
                            seat.ended()
                        gate("before-commit")
                        committing = True
                        hook = self._hooks.get(task.name)
                        last = _batch_statement(works, self._worker, results)
                        if hook is None:
                            await tx.commit(last)
                        else:
                            await self._commit_with_hook(tx, works, hook, last)
                except asyncpg.PostgresError as error:
                    if committing and error.sqlstate == LOST_LEASE:
                        raise Superseded from error
                    raise
            for work in works:
                self._leases.done(work)
            return ["success"] * len(works)
        except Superseded:
            # Another worker holds one of them now; the others run alone.
            if len(works) > 1:
                return await self._one_by_one(task, works, seat)
            self._leases.done(works[0])
            log.info("work.superseded", task=task.name, id=works[0].id)
            return ["superseded"]
        except BaseException as error:
            reason = _ended(tx, seat.failure(error))
            if isinstance(reason, TransactionEnded) and not isinstance(reason, RoleChanged):
                # Never retried: what the handler wrote for all of them may be committed.
                return [await self._settle(task, work, judge(task, work, reason)) for work in works]
            if isinstance(reason, Cancelled) and len(works) > 1:
                return await self._without_cancelled(task, works, seat, reason)
            if len(works) == 1:
                return [await self._settle(task, works[0], judge(task, works[0], reason))]
            if committing and isinstance(error, OutcomeUnknown):
                # Never retried in place. If the commit happened, the rows are gone and nothing is written.
                return [await self._settle(task, work, judge(task, work, error)) for work in works]
            return await self._one_by_one(task, works, seat)

    async def _without_cancelled(self, task: Task, works: list[Claimed], seat: Seat, reason: Cancelled) -> list[str]:
        """Settle the members that operators cancelled, and run the others again as a batch."""
        stopped = [work for work in works if work.id in seat.cancelled]
        outcomes = [await self._settle(task, work, Stopped(describe(reason))) for work in stopped]
        rest = [work for work in works if work not in stopped]
        return outcomes + (await self._run_batch(task, rest, seat) if rest else [])

    async def _one_by_one(self, task: Task, works: list[Claimed], seat: Seat) -> list[str]:
        return [outcome for work in works for outcome in await self._run_batch(task, [work], seat)]

    async def fail(self, task: Task, work: Claimed, error: Exception) -> str:
        """Settle work whose slot was interrupted after its handler had ended. It counts only if the lease is still held."""
        return await self._settle(task, work, judge(task, work, error))

    async def _settle(self, task: Task, work: Claimed, outcome: Outcome) -> str:
        """Write the outcome, however long the database is unavailable. It counts only if the lease is still held."""

        hook = self._hooks.get(task.name)

        async def write(conn: Connection, outcome: Outcome) -> Written:
            if _does_not_fit(outcome):
                wait_s = await wait_for_version(conn, task, work, outcome.error)
                outcome = outcome if wait_s is None else Again(wait_s, outcome.error, counted=False)
            if hook is None:
                return await write_outcome(conn, outcome)
            try:
                return await write_with_hook(conn, outcome, run_end_hook, hook)
            except TransactionEnded:  # the hook ended the transaction, and with it the outcome: its job repeats it
                return await write_with_hook(conn, outcome, defer_end_hook, hook)

        async def write_with_hook(conn: Connection, outcome: Outcome, run: RunHook, hook: EndHook) -> Written:
            async with self._open_tx(conn, work) as tx:
                await tx.become_engine()
                written = await write_outcome(conn, outcome)
                if written.kept:
                    await run(tx, work, self._worker, hook, wake=self._host.wake)
            return written

        async def write_outcome(conn: Connection, outcome: Outcome) -> Written:
            kept = await settle(conn, work, self._worker, outcome, critical=task.critical)
            if _timed_out(outcome):
                fields = {"task": work.task, "kind": work.kind, "timeout_s": task.timeout_s}
                await record_metric(conn, "worker_timeout", job_id=work.id, metadata=fields)
            return Written(outcome, kept)

        written = await record(self._db, work, outcome, write)
        self._leases.done(work)
        gate("after-settle")
        _log_failure(work, written.outcome, critical=task.critical)
        # A success has the same name however it was settled: metrics compute rates from the name.
        name = "success" if isinstance(written.outcome, Succeeded) else type(written.outcome).__name__.lower()
        return name if written.kept else "superseded"


def _batch_statement(works: list[Claimed], worker: int, results: Any) -> str:
    """Return the fenced acknowledgement of a batch as SQL text, for the round trip that commits the batch."""
    kept = None
    if isinstance(results, BatchResults):
        kept = result_json({str(work.id): value for work, value in zip(works, results.values, strict=True)})
    ids = ",".join(str(work.id) for work in works)
    leases = ",".join(str(lease) for lease in {work.lease for work in works})
    text = "null" if kept is None else f"{quote(kept)}::jsonb"
    return f"select onceward.finish_batch('{{{ids}}}', '{{{leases}}}', {worker}, {text})"


def _ended(tx: Transaction | None, failure: BaseException) -> BaseException:
    """Return the failure, or that the handler had ended its transaction before it failed: a retry could repeat its effects."""
    if tx is None or not tx.was_ended or isinstance(failure, TransactionEnded):
        return failure
    ended = TransactionEnded(
        f"the handler ended its own transaction and then failed ({type(failure).__name__}). {ENDED}"
    )
    ended.__cause__ = failure
    return ended.with_traceback(failure.__traceback__)


def judge(task: Task, work: Claimed, error: BaseException) -> Outcome:
    """Return the outcome that an error means for its work."""
    failures = work.attempts + 1
    match error:
        case Snooze():
            return Again(error.after_s, describe(error), counted=False)
        case Cancelled():
            return Stopped(describe(error))
        case Indeterminate():
            return NotKnown(describe(error))
        case PayloadInvalid():
            return Dead("payload_invalid", describe(error, "payload_invalid"), error.result)
        case TransactionEnded():
            return Dead("permanent", describe(error, "permanent"))
        case Permanent():
            return Dead("permanent", describe(error, "permanent"), error.result)
        case _ if not isinstance(error, Retry | TimedOut) and lost_connection(error):
            return Crashed(AFTER_LOST_S[min(work.crashes, 2)], describe(error, "connection_lost"))
        case _ if _is_transient(error):
            # Not the handler's fault: a deadlock victim, or work without a connection, has changed nothing. Not counted.
            return Again(0.05, describe(error), counted=False)
        case _ if task.retry.exhausted(failures, work.max_attempts):
            reason = "timeout" if isinstance(error, TimedOut) else "max_attempts_exceeded"
            return Dead(reason, describe(error, reason))
        case Retry() if error.after_s is not None:
            return Again(error.after_s, describe(error))
        case _:
            return Again(task.retry.wait_s(failures), describe(error))


def _is_transient(error: BaseException) -> bool:
    if isinstance(error, Unavailable):
        return True
    return isinstance(error, asyncpg.PostgresError) and getattr(error, "sqlstate", None) in TRANSIENT


def _does_not_fit(outcome: Outcome) -> TypeGuard[Dead]:
    return isinstance(outcome, Dead) and outcome.reason == "payload_invalid"


def _timed_out(outcome: Outcome) -> bool:
    error: dict[str, Any] | None = getattr(outcome, "error", None)
    return error is not None and error["type"] == TimedOut.__name__


def _log_failure(work: Claimed, outcome: Outcome, *, critical: bool) -> None:
    """Log one line per failure: the error's type, its scrubbed message, the user's line. The rest is in `attempts`."""
    error: dict[str, Any] | None = getattr(outcome, "error", None)
    if error is None:
        return
    log_fields = {"kind": work.kind, "id": work.id, "task": work.task, "attempt": work.attempt, "error": error["type"]}
    log_fields["message"] = loggable(error["message"])
    if (at := own_frame(error.get("stack") or [])) is not None:
        log_fields["at"] = at
    if "hint" in error:
        log_fields["fix"] = error["hint"]
    match outcome:
        case Dead(reason) if not critical:
            log.warning("work.failed", reason=reason, **log_fields)
        case Dead(reason):
            log.error("work.dead_lettered", reason=reason, hint=f"onceward dead-letters show {work.id}", **log_fields)
        case Again(due_in_s, _, True):
            log.warning("work.retry_scheduled", retry_in_s=round(due_in_s, 1), **log_fields)
        case Again():
            log.info("work.snoozed", **log_fields)
        case Crashed():
            log.info("work.crashed", **log_fields)
        case Stopped():
            log.info("work.cancelled", **log_fields)
        case _:
            log.info("work.outcome_lost", **log_fields)
