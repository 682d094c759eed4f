"""One step of a workflow: its place in the sequence, its attempts, and its record."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import asyncpg

from onceward.background import TimeLimit
from onceward.db import OutcomeUnknown, RoleChanged, TransactionEnded, lost_connection, note_lost_connection, quote
from onceward.db.transaction import ended_and_failed
from onceward.statements import read_statement
from onceward.work import Indeterminate, Permanent, Retry, RetryPolicy, Snooze, Superseded
from onceward.work.gate import gate
from onceward.work.settle import describe
from onceward.work.sqlstates import LOST_LEASE
from onceward.workflows.errors import Halted, HistoryChanged, Interrupted, Parked, StepFailed
from onceward.workflows.history import Recorded
from onceward.workflows.interruption import interrupting, is_transient
from onceward.workflows.reliance import Reliance
from onceward.workflows.sqlstates import HISTORY_LACKS_STEP
from onceward.workflows.step_functions import Callee, Step

if TYPE_CHECKING:
    from onceward.workflows.run import WorkflowRun

T = TypeVar("T")

IN_PLACE_S = 1.0
"""A retry that waits no longer than this keeps its worker slot; for a longer wait the workflow is parked."""
RATE_IN_PLACE_S = 5.0

RESERVE = read_statement("workflows", "reserve_rate")

DECISIONS = (Permanent, Retry, Snooze, Indeterminate)
"""What a step raises to say how it ends."""
FINAL = (Permanent, Indeterminate, TransactionEnded)
"""No further attempt follows. The effects of a step that ended its own transaction may be committed."""


@dataclass(frozen=True, slots=True)
class Place:
    """The position of a step in the sequence, and the record at that position, if any."""

    position: int
    kind: str
    key: str
    name: str
    recorded: Recorded | None


@dataclass(frozen=True, slots=True, kw_only=True)
class How:
    """The retries, timeout and rate of a step."""

    retry: RetryPolicy
    timeout_s: float | None
    rate_per_s: float | None = None

    def __post_init__(self) -> None:
        if self.timeout_s is not None and self.timeout_s <= 0:
            raise ValueError(f"a step's timeout must be more than 0 seconds, not {self.timeout_s}")
        if self.rate_per_s is not None and self.rate_per_s <= 0:
            raise ValueError(f"a step's rate must be more than 0 per second, not {self.rate_per_s}")


class StepCall(Generic[T]):
    """A call of a step. Await it, or pass several to `wf.gather`."""

    __slots__ = ("_arguments", "_callee", "_how", "_run", "place")

    def __init__(self, run: WorkflowRun, place: Place, callee: Callee, arguments: dict[str, Any], how: How) -> None:
        self._run = run
        self._callee = callee
        self._arguments = arguments
        self._how = how
        self.place = place

    def __await__(self) -> Generator[Any, Any, T]:
        return self.perform().__await__()

    async def perform(self) -> T:
        """Return the recorded result, or run the step now and record its result."""
        recorded = self.place.recorded
        if recorded is not None:
            if recorded.state == "done":
                return self._callee.load(recorded.result)
            if recorded.state == "failed":
                raise StepFailed(recorded.key, recorded.error or {}, recorded.attempts)
        if self._run.unwinding:
            raise Halted
        return await self.carry_out(recorded)

    async def carry_out(self, recorded: Recorded | None) -> T:
        """Attempt the step or compensation until it succeeds or its attempts are used up."""
        failures = 0
        reserved = False
        if recorded is not None and recorded.state == "retry":
            if recorded.due_at is not None and recorded.due_at > self._run.history.now:
                raise Parked(recorded.due_at)
            failures = recorded.attempts
            reserved = recorded.error is None
        while True:
            if self._how.rate_per_s is not None and not reserved:
                await self._await_turn(failures, self._how.rate_per_s)
            reserved = False
            started = datetime.now(UTC)
            try:
                if self._callee.transaction is not None:
                    return await self._in_transaction(failures + 1, started)
                return await self._by_itself(failures + 1, started)
            except Exception as error:
                if is_transient(error):
                    raise Interrupted(error) from error
                failures = await self._failed(error, failures, started)

    async def _by_itself(self, attempt: int, started: datetime) -> T:
        async with TimeLimit(self._how.timeout_s, of=self._run.work):
            value = await self._callee.call(
                self._arguments, step=self._step(attempt), tx=None, threads=self._run.host.threads
            )
        text, value = self._round_trip(value)
        gate("workflow-before-record")
        await self._run.record(self.place, "done", attempts=attempt, result=text, started_at=started)
        gate("workflow-after-record")
        return value

    async def _in_transaction(self, attempt: int, started: datetime) -> T:
        host, work = self._run.host, self._run.work
        relied_on = self._run.unconfirmed.reliance
        async with host.db.acquire() as conn:
            tx = host.open_tx(conn, work)
            try:
                async with tx:
                    async with TimeLimit(self._how.timeout_s, of=work):
                        value = await self._callee.call(
                            self._arguments, step=self._step(attempt), tx=tx, threads=host.threads
                        )
                    text, value = self._round_trip(value)
                    gate("workflow-before-commit")
                    await tx.commit(recording(work.id, work.lease, self.place, attempt, text, started, relied_on))
                self._run.unconfirmed.recorded(self.place.position, "done", relied_on)
                gate("workflow-after-commit")
                return value
            except OutcomeUnknown as error:
                lost = HistoryChanged(
                    0.05, "the outcome of a step's commit is unknown: the next run reads it from the history"
                )
                raise Interrupted(lost) from error
            except BaseException as error:
                if isinstance(error, asyncpg.PostgresError) and error.sqlstate == LOST_LEASE:
                    raise Interrupted(Superseded()) from error
                if isinstance(error, asyncpg.PostgresError) and error.sqlstate == HISTORY_LACKS_STEP:
                    raise Interrupted(HistoryChanged(0.0, str(error))) from error
                if tx.was_ended and isinstance(error, Exception) and not isinstance(error, TransactionEnded):
                    raise ended_and_failed(error) from error
                if isinstance(error, DECISIONS):
                    raise  # what the step decided holds, and needs no connection of its own
                note_lost_connection(error, conn)
                if isinstance(error, Exception) and lost_connection(error):
                    # This attempt changed nothing. The executor decides how often a step may lose its connection.
                    raise Interrupted(error) from error
                raise

    def _round_trip(self, value: Any) -> tuple[str, Any]:
        """Return the result as recorded, and as a replay will see it."""
        text = self._callee.dump(value)
        return text, self._callee.load(text)

    def _step(self, attempt: int) -> Step:
        return Step(self._run.work.id, self.place.key, attempt)

    async def _failed(self, error: Exception, failures: int, started: datetime) -> int:
        """Record the failure and wait.

        Return the number of failures; raise `StepFailed` or `Parked` if no retry follows here.
        """
        counted = not isinstance(error, Snooze)
        failures += 1 if counted else 0
        failure = describe(error)
        final = isinstance(error, FINAL) and not isinstance(error, RoleChanged)
        if counted and (final or self._how.retry.exhausted(failures)):
            await self._run.record(self.place, "failed", attempts=failures, error=failure, started_at=started)
            gate("workflow-after-failure")
            raise StepFailed(self.place.key, failure, failures) from error
        requested_s = error.after_s if isinstance(error, Retry | Snooze) else None
        wait_s = requested_s if requested_s is not None else self._how.retry.wait_s(failures)
        due_at = await self._run.record(
            self.place, "retry", attempts=failures, error=failure, due_s=wait_s, started_at=started
        )
        gate("workflow-after-retry")
        if wait_s > IN_PLACE_S:
            raise Parked(due_at)
        await asyncio.sleep(wait_s)
        return failures

    async def _await_turn(self, failures: int, rate_per_s: float) -> None:
        """Reserve the next start that the rate allows on all nodes, and wait for it.

        Park the workflow if the wait is long.
        """
        with interrupting():
            wait_s: float = await self._run.host.db.fetchval(RESERVE, self._callee.name, rate_per_s)
        if wait_s > RATE_IN_PLACE_S:
            due_at = await self._run.record(self.place, "retry", attempts=failures, due_s=wait_s)
            raise Parked(due_at)
        if wait_s > 0:
            await asyncio.sleep(wait_s)


def recording(
    id: int,
    lease: int,
    place: Place,
    attempts: int,
    result: str | None,
    started: datetime,
    relied_on: Reliance,
    *,
    state: str = "done",
    ref: int | None = None,
) -> str:
    """Return the fenced SQL that records a step, for the round trip that commits the step's transaction."""
    return (
        f"select onceward.workflow_record_or_fail({id}, {lease}, {place.position}, {quote(place.kind)}, "
        f"{quote(place.key)}, {quote(place.name)}, {quote(state)}, {attempts}, "
        f"{'null' if result is None else quote(result)}::json, {'null' if ref is None else ref}, "
        f"'{started.isoformat()}', '{relied_on.positions_text}', '{relied_on.finished_text}')"
    )
