"""The object that a workflow's function receives. It records every step, sleep, wait and child."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Generator, Mapping
from datetime import datetime
from typing import Any, Generic, NoReturn, ParamSpec, TypeVar
from uuid import UUID

import orjson
from pydantic import TypeAdapter, ValidationError

from onceward.background import spawn
from onceward.background.unclosed import Unclosed
from onceward.db import Cause, Transaction
from onceward.durations import Duration, in_seconds
from onceward.work import PayloadInvalid, RetryOption, Superseded
from onceward.work.gate import gate
from onceward.work.job_task import positional
from onceward.work.leaks import leaked
from onceward.workflows import workflow_start
from onceward.workflows.errors import (
    ChildFailed,
    Continued,
    Halted,
    HistoryChanged,
    Interrupted,
    Parked,
    StepFailed,
    WaitTimedOut,
)
from onceward.workflows.interruption import interrupting
from onceward.workflows.run import WorkflowRun
from onceward.workflows.step import How, Place, StepCall, recording
from onceward.workflows.step_caller import STEPS, StepCaller, step_options
from onceward.workflows.task import ConfiguredWorkflow

T = TypeVar("T")
P = ParamSpec("P")

HOLD = "select id from onceward.work where id = $1 and lease = $2 for share"
WAIT = "select * from onceward.workflow_wait($1, $2, $3, $4, $5, $6, $7, $8, $9)"


class Workflow(StepCaller):
    """One run of a workflow. Code between its steps must be deterministic: no clock, no random values, no I/O."""

    __slots__ = ()

    def __init__(self, run: WorkflowRun) -> None:
        super().__init__(run)

    @property
    def id(self) -> int:
        return self._run.work.id

    @property
    def name(self) -> str:
        return self._run.task.name

    @property
    def organization(self) -> UUID | None:
        return self._run.work.organization

    def key(self, action: str) -> str:
        """Return the idempotency key `workflow:<id>:<action>`. It is the same on every run."""
        return Cause("workflow", self.id).key(action)

    # -- steps -----------------------------------------------------------------------------------------------------

    def options(
        self,
        *,
        key: object = None,
        retry: RetryOption | None = None,
        max_attempts: int | None = None,
        timeout: Duration | None = 30.0,
        rate: float | None = None,
    ) -> StepCaller:
        """Set options of one step or compensation: `await wf.options(key=seat, timeout=5).step(book, seat)`.

        `key` names the step in the record, for steps in a loop. `timeout` is for one attempt. `rate` is how many times
        per second the function may start on all nodes together.
        """
        return StepCaller(
            self._run, step_options(key=key, retry=retry, max_attempts=max_attempts, timeout=timeout, rate=rate)
        )

    async def gather(
        self, *calls: StepCall[Any] | ChildCall[Any], limit: int = 10, keep_failures: bool = False
    ) -> list[Any]:
        """Run steps and children concurrently, at most `limit` steps at a time. Return results in the order of the
        calls.

        All calls finish before the first failure is raised. With `keep_failures` a failure is returned as a result.
        """
        if limit < 1:
            raise ValueError(f"gather: limit must be at least 1, not {limit}")
        if wrong := [call for call in calls if not isinstance(call, StepCall | ChildCall)]:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(
                f"gather takes wf.step(...) and wf.child(...), not {wrong[0]!r}: use a child for a sequence"
            )
        slots = asyncio.Semaphore(limit)
        interrupted: list[Interrupted] = []

        async def perform(call: StepCall[Any] | ChildCall[Any]) -> Any:
            async with slots:
                if interrupted:
                    return _End(interrupted[0])
                try:
                    return await call.perform()
                except Interrupted as end:
                    # Steps that have started may still be recorded; no further step starts.
                    interrupted.append(end)
                    return _End(end)
                except (Parked, Halted, StepFailed) as end:
                    return _End(end)

        tasks = [spawn(Unclosed(perform(call), leaked)) for call in calls]
        try:
            outcomes = await asyncio.gather(*tasks)
        except BaseException:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
            raise
        return _results(outcomes, keep_failures=keep_failures)

    # -- time ------------------------------------------------------------------------------------------------------

    async def sleep(self, duration: Duration, /) -> None:
        """Park the workflow for this duration (seconds or timedelta). It holds no slot, lease or connection
        meanwhile."""
        seconds = _seconds(duration)
        place = self._run.place("sleep", "sleep")
        if place.recorded is None:
            until = await self._run.record(place, "done", due_s=seconds)
        else:
            until = place.recorded.due_at or self._run.history.now
        if until > self._run.history.now:
            raise Halted if self._run.unwinding else Parked(until)

    async def now(self) -> datetime:
        """Return `onceward.now()` as recorded by the first run."""
        return await self._value(_now)

    async def uuid(self) -> UUID:
        """Return a random UUID. It is recorded, so every run sees the same one."""
        return await self._value(_uuid)

    # -- signals and children ----------------------------------------------------------------------------------------

    async def wait_for(
        self,
        name: str,
        /,
        *,
        of: Any = Any,
        match: Mapping[str, Any] | None = None,
        timeout: Duration | None = None,
        key: object = None,
    ) -> Any:
        """Wait for a signal to this workflow and return its payload, validated as the type `of`.

        With `match`, only a signal or an announced event whose payload contains `match` ends the wait. After `timeout`,
        `WaitTimedOut` is raised. Signals sent before the wait are kept; events announced before the wait are not.
        """
        place = self._run.place("signal", name, key)
        recorded = place.recorded
        if recorded is not None and recorded.state == "done":
            return _decode(name, of, recorded.result)
        if recorded is not None and recorded.state == "failed":
            raise WaitTimedOut(f"no signal {name!r} arrived before the timeout")
        if self._run.unwinding:
            raise Halted
        if recorded is None:
            return await self._start_wait(place, of, match, timeout)
        if recorded.due_at is not None and recorded.due_at <= self._run.history.now:
            error = {"type": "WaitTimedOut", "message": f"no signal {name!r} arrived before the timeout"}
            await self._run.record(place, "failed", error=error)
            gate("workflow-after-timeout")
            raise WaitTimedOut(f"no signal {name!r} arrived before the timeout")
        raise Parked(recorded.due_at, (place.position,))

    async def _start_wait(
        self, place: Place, of: Any, match: Mapping[str, Any] | None, timeout: Duration | None
    ) -> Any:
        run = self._run
        relied_on = run.unconfirmed.reliance
        with interrupting():
            row = await run.host.db.fetchrow(
                WAIT,
                self.id,
                run.work.lease,
                place.position,
                place.key,
                place.name,
                None if match is None else dict(match),
                None if timeout is None else _seconds(timeout),
                relied_on.positions,
                relied_on.finished,
            )
        assert row is not None
        gate("workflow-after-wait")
        if row["state"] == "lost":
            raise Interrupted(Superseded())
        if row["state"] == "lacking":
            raise Interrupted(HistoryChanged(0.0, "the history lacks a step that this run had recorded"))
        run.unconfirmed.recorded(place.position, row["state"], relied_on)
        if row["state"] == "done":
            return _decode(place.name, of, row["result"])
        raise Parked(row["due_at"], (place.position,))

    async def signal(self, workflow_id: int, name: str, payload: Any = None, /) -> str:
        """Send a signal to another workflow exactly once. Return `delivered`, `kept` or `gone`."""
        return await self._value(_signal, workflow_id, name, payload, step="signal")

    def child(self, workflow: ConfiguredWorkflow[P, T], /, *args: P.args, **kwargs: P.kwargs) -> ChildCall[T]:
        """Run another workflow as a child and wait for its result. Cancelling this workflow cancels the child."""
        if args:
            raise positional(workflow.name)
        place = self._run.place("child", workflow.name, workflow.options.key)
        return ChildCall(self._run, place, workflow, kwargs)

    # -- history -----------------------------------------------------------------------------------------------------

    async def set_attributes(self, **attributes: Any) -> None:
        """Set attributes that operators can search for, such as the stage that the workflow has reached."""
        await self._value(_set_attributes, self.id, attributes, step="set_attributes")

    async def patched(self, change: str, /) -> bool:
        """Return False for workflows that passed this point before the change was deployed, and True for all others.

        `if await wf.patched("mail-receipt"): ...` lets steps change while workflows are running.
        """
        name = f"patch-{change}"
        recorded = self._run.peek()
        if recorded is not None or self._run.replaying:
            if recorded != ("value", name):
                return False
            self._run.place("value", name)
            return True
        place = self._run.place("value", name)
        await self._run.record(place, "done", result="true")
        return True

    def continue_as_new(self, **arguments: Any) -> NoReturn:
        """End this history and continue with an empty one and these arguments. For workflows that never end."""
        raise Continued(arguments)

    async def _value(self, function: Callable[..., Any], *args: Any, step: str | None = None) -> Any:
        callee = self._run.task.callee(function)
        place = self._run.place("value", step or callee.name.lstrip("_"))
        how = How(retry=STEPS, timeout_s=30.0)
        return await StepCall[Any](self._run, place, callee, callee.arguments(args, {}), how)


class ChildCall(Generic[T]):
    """A call of a child workflow. Await it, or pass it to `wf.gather`."""

    __slots__ = ("_arguments", "_run", "_workflow", "place")

    def __init__(
        self, run: WorkflowRun, place: Place, workflow: ConfiguredWorkflow[..., T], arguments: dict[str, Any]
    ) -> None:
        self._run = run
        self._workflow = workflow
        self._arguments = arguments
        self.place = place

    def __await__(self) -> Generator[Any, Any, T]:
        return self.perform().__await__()

    async def perform(self) -> T:
        """Return the result of the child. Raises `ChildFailed` if the child did not succeed."""
        recorded = self.place.recorded
        if recorded is not None and recorded.state == "done":
            return self._workflow.workflow.load_result(orjson.loads(recorded.result or "null"))
        if recorded is not None and recorded.state == "failed":
            raise ChildFailed(recorded.key, recorded.error or {})
        if self._run.unwinding:
            raise Halted
        if recorded is None:
            await self._start_child()
        raise Parked(None, (self.place.position,))

    async def _start_child(self) -> None:
        run, work = self._run, self._run.work
        relied_on = run.unconfirmed.reliance
        request = workflow_start.start_request(
            self._workflow,
            self._arguments,
            organization=work.organization,
            caused_by=work.id,
            parent=work.id,
            position=self.place.position,
        )
        with interrupting():
            async with run.host.db.transaction(role="engine", organization=work.organization, cause=work.cause) as tx:
                # Lease first: a run that has been replaced would see the child of the newer run as a duplicate.
                if await tx.fetchval(HOLD, work.id, work.lease) is None:
                    raise Superseded
                started = await workflow_start.start(tx, request, wake=run.host.wake)
                if started.duplicate:
                    raise ValueError(
                        f"child {self._workflow.name} with key {self._workflow.options.key!r} was already started as "
                        f"workflow {started.id}: give the child a unique key, or none"
                    )
                started_at = datetime.now().astimezone()
                await tx.execute(
                    recording(
                        work.id, work.lease, self.place, 1, None, started_at, relied_on, state="waiting", ref=started.id
                    )
                )
                gate("workflow-before-child")
        run.unconfirmed.recorded(self.place.position, "waiting", relied_on)
        gate("workflow-after-child")


class _End:
    """The exception that ended a call of `gather`."""

    __slots__ = ("reason",)

    def __init__(self, reason: BaseException) -> None:
        self.reason = reason


def _results(outcomes: list[Any], *, keep_failures: bool) -> list[Any]:
    reasons = [end.reason for end in outcomes if isinstance(end, _End)]
    for reason in reasons:
        if isinstance(reason, Halted | Interrupted):
            raise reason
    if parked := [reason for reason in reasons if isinstance(reason, Parked)]:
        times = [each.until for each in parked if each.until is not None]
        raise Parked(min(times, default=None), tuple(place for each in parked for place in each.waiting))
    if reasons and not keep_failures:
        raise reasons[0]
    return [end.reason if isinstance(end, _End) else end for end in outcomes]


def _seconds(duration: Duration) -> float:
    seconds = in_seconds(duration)
    if seconds < 0:
        raise ValueError(f"a duration must not be negative, got {duration}")
    return seconds


def _decode(name: str, of: Any, text: str | None) -> Any:
    try:
        return TypeAdapter(of).validate_json(text or "null")
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        raise PayloadInvalid(f"signal {name}: {'.'.join(map(str, first['loc']))}: {first['msg']}") from None


async def _now(tx: Transaction) -> datetime:
    return await tx.fetchval("select onceward.now()")


async def _uuid() -> UUID:
    return uuid.uuid4()


async def _signal(tx: Transaction, workflow_id: int, name: str, payload: Any) -> str:
    return await workflow_start.signal(tx, workflow_id, name, payload)


async def _set_attributes(tx: Transaction, workflow_id: int, attributes: dict[str, Any]) -> None:
    await tx.execute(
        "update onceward.workflows set attributes = coalesce(attributes, '{}') || $2::jsonb where id = $1",
        workflow_id,
        attributes,
    )
