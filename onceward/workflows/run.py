"""One run of a workflow: replay what is recorded, go on from there, and come to rest in one of four ways.

run ──▶ finished      the function returned: result recorded, work gone, in one commit
    ──▶ parked        a sleep, a wait, a retry in a while: no slot, no lease, no connection is held
    ──▶ unwound       it failed or was cancelled: compensations in reverse, then the end
    ──▶ dead letter   the code diverged, or a compensation failed: an operator looks
"""

from __future__ import annotations

import asyncio
from datetime import datetime
from typing import TYPE_CHECKING, Any, cast

import structlog

from onceward.db import RawJson, dump_json
from onceward.work import Claimed, Host, Settled, Snooze, Superseded
from onceward.work.gate import gate
from onceward.work.settle import describe
from onceward.workflows.errors import (
    CompensationFailed,
    Continued,
    Halted,
    HistoryChanged,
    Interrupted,
    Parked,
    StepFailed,
    TooManySteps,
    WorkflowDiverged,
)
from onceward.workflows.history import History
from onceward.workflows.interruption import interrupting, is_transient
from onceward.workflows.recorder import Ending, Record
from onceward.workflows.step import Place, StepCall
from onceward.workflows.task import QUEUE, WorkflowTask

if TYPE_CHECKING:
    from onceward.workflows.workflow import Workflow

log = structlog.get_logger(__name__)

WAKE_WITHIN_S = 60.0
MAX_KEY = 300

DECIDE = """
update onceward.workflows f set ending = $3, state = 'compensating', error = $4
  from (select id from onceward.work where id = $1 and lease = $2 for share) w
 where f.id = w.id returning f.id
"""
UNSUSPECT = "update onceward.work set crashes = 0 where id = $1 and lease = $2 and crashes > 0"
CHILDREN = """
select s.ref from onceward.workflow_steps s
 where s.workflow_id = $1 and s.kind = 'child' and s.state = 'waiting' and s.ref is not null order by s.ref
"""
CANCEL_CHILD = "select onceward.workflow_cancel_child_or_fail($1, $2, $3)"


class Run:
    """What `Workflow` is the user's face of."""

    def __init__(self, task: WorkflowTask, work: Claimed) -> None:
        self.task = task
        self.work = work
        self.host = cast(Host, work.host)
        self.history = cast(History, work.body)
        self.unwinding = self.history.ending is not None
        self._recorder = self.history.recorders.of(self.host.db)
        self._last = self.history.last
        self._asked = 0
        self._suspect = work.crashes > 0
        self._counts: dict[str, int] = {}
        self._keys: set[str] = set()
        self._compensations: list[StepCall[Any]] = []

    # -- the run ------------------------------------------------------------------------------------------------

    async def perform(self, workflow: Workflow) -> None:
        """Run to rest. Never returns: raises `Settled`, or what the executor is to judge."""
        try:
            await self._to_rest(workflow)
            return
        except Interrupted as interrupted:
            reason = interrupted.reason
        raise reason  # without a cause: what lost the connection has been judged already

    async def _to_rest(self, workflow: Workflow) -> None:
        try:
            if self.unwinding:
                await self._replay_and_unwind(workflow)
            await self._go_on(workflow)
        except Parked as parked:
            await self._park(parked)
        except Continued as continued:
            await self._continue(continued)

    async def _go_on(self, workflow: Workflow) -> None:
        try:
            result = await self._call(workflow)
            self._require_all_was_asked_for()
            text = dump_json(result) if result is not None else None
        except (Snooze, WorkflowDiverged):
            raise
        except Exception as error:
            if is_transient(error):
                raise
            told = describe(error)
            if isinstance(error, StepFailed):
                told["step"] = error.key
            await self._unwind("failed", told)
        else:
            await self._finish("success", "success", result=text)

    async def _call(self, workflow: Workflow) -> Any:
        return await self.task.function(**{self.task.injected: workflow}, **self.task.load(self.history.args))

    # -- the sequence of steps ------------------------------------------------------------------------------------

    def ask(self, kind: str, name: str, key: object = None) -> Place:
        """The next place in the sequence; an error if something else is recorded there."""
        position, full = self._asked, self._full_key(name, key)
        recorded = self.history.steps.get(position)
        if recorded is not None and (recorded.kind, recorded.key) != (kind, full):
            raise self._diverged(f"the code asks for {kind} {full!r}, recorded is {recorded.kind} {recorded.key!r}")
        if recorded is None and self.unwinding:
            raise Halted
        if position >= self.task.max_steps:
            raise TooManySteps(
                f"workflow {self.task.name} has {position} steps, as many as max_steps allows: "
                "go on with wf.continue_as_new(...)"
            )
        self._asked += 1
        self._keys.add(full)
        return Place(position, kind, full, name, recorded)

    def peek(self) -> tuple[str, str] | None:
        """Kind and key of what is recorded at the next place."""
        recorded = self.history.steps.get(self._asked)
        return None if recorded is None else (recorded.kind, recorded.key)

    @property
    def replaying(self) -> bool:
        """Something is recorded at or after the next place."""
        return self._asked <= self._last

    def _full_key(self, name: str, key: object) -> str:
        if key is None:
            number = self._counts[name] = self._counts.get(name, 0) + 1
            full = name if number == 1 else f"{name}#{number}"
        else:
            full = f"{name}:{key}"
        if len(full) > MAX_KEY or "\x00" in full or not _is_text(full):
            raise ValueError(
                f"step {name!r}: key must have at most {MAX_KEY - len(name)} characters, none of them NUL or a surrogate"
            )
        if full in self._keys:
            raise ValueError(f"step {name}: key {key!r} was used before in this workflow: every step needs its own")
        return full

    def _require_all_was_asked_for(self) -> None:
        if self._asked <= self._last:
            left = self.history.steps[max(self.history.steps)]
            raise self._diverged(f"the code ended, and never asked for {left.kind} {left.key!r}")

    def _diverged(self, what: str) -> WorkflowDiverged:
        return WorkflowDiverged(
            f"workflow {self.task.name} {self.work.id} at step {self._asked}: {what}. It was started with version "
            f"{self.history.version} of the code, this is {self.task.version}: deploy code that asks for the recorded "
            "steps (guard changes with wf.patched) and retry it, or fork it"
        )

    # -- writing ---------------------------------------------------------------------------------------------------

    async def record(
        self,
        place: Place,
        state: str,
        *,
        attempts: int = 0,
        result: str | None = None,
        error: dict[str, Any] | None = None,
        due_s: float | None = None,
        started_at: datetime | None = None,
    ) -> datetime:
        """Durable when it returns. Returns when what is not finished is due."""
        record = Record(
            self.work.id,
            self.work.lease,
            place.position,
            place.kind,
            place.key,
            place.name,
            state,
            attempts,
            result,
            None if error is None else dump_json(error),
            due_s,
            started_at,
        )
        with interrupting():
            kept = await self._recorder.record(record)
            if kept is None:
                raise HistoryChanged(0.0, "the lease is lost, or the step was answered meanwhile")
            if self._suspect:
                # It has come further than the worker that died with it: it is no suspect any more.
                await self.host.db.execute(UNSUSPECT, self.work.id, self.work.lease)
                self._suspect = False
        return kept.due_at or self.history.now

    async def _finish(
        self, state: str, outcome: str, *, result: str | None = None, error: dict[str, Any] | None = None
    ) -> None:
        gate("workflow-before-finish")
        told = None if error is None else dump_json(error)
        work = self.work
        ending = Ending(work.id, work.lease, state, outcome, result, told, work.started_at, self.host.worker)
        with interrupting():
            ended = await self._recorder.finish(ending)
        if ended is None:
            raise Superseded
        gate("workflow-after-finish")
        if ended.told:
            self.host.wake(QUEUE)
        raise Settled(outcome)

    async def _park(self, parked: Parked) -> None:
        gate("workflow-before-park")
        work = self.work
        with interrupting():
            kept: bool = await self.host.db.fetchval(
                "select onceward.workflow_park($1, $2, $3, $4)", work.id, work.lease, parked.until, list(parked.waiting)
            )
        if not kept:
            raise Superseded
        gate("workflow-after-park")
        self._wake_at(parked.until)
        raise Settled("parked")

    def _wake_at(self, until: datetime | None) -> None:
        """Workers look every so often by themselves; what is due within the minute is not made to wait for that."""
        if until is None:
            return
        in_s = (until - self.history.now).total_seconds()
        if in_s <= WAKE_WITHIN_S:
            asyncio.get_running_loop().call_later(max(0.0, in_s) + 0.001, self.host.wake, QUEUE)

    async def _continue(self, continued: Continued) -> None:
        """The next history begins in the commit that ends this one; whoever waits for this one waits for it."""
        if self._compensations:
            raise ValueError(
                f"workflow {self.task.name}: {self._compensations[-1].place.key} is registered as a compensation, and "
                "compensations do not carry over into a new history"
            )
        arguments = self.task.dump(continued.arguments)
        gate("workflow-before-continue")
        with interrupting():
            new: int | None = await self.host.db.fetchval(
                "select onceward.workflow_continue($1, $2, $3, $4, $5, $6)",
                self.work.id,
                self.work.lease,
                self.host.worker,
                self.work.started_at,
                RawJson(arguments),
                self.task.version,
            )
        if new is None:
            raise Superseded
        gate("workflow-after-continue")
        self.host.wake(QUEUE)
        raise Settled("success")

    # -- undoing ---------------------------------------------------------------------------------------------------

    def register(self, call: StepCall[Any]) -> None:
        """Run it, in reverse order, if the workflow fails or is cancelled."""
        self._compensations.append(call)

    async def _replay_and_unwind(self, workflow: Workflow) -> None:
        """Only as far as the record goes: to learn which compensations there are."""
        ending = self.history.ending
        assert ending is not None
        try:
            await self._call(workflow)
        except WorkflowDiverged:
            raise
        except (Halted, Parked, Continued, Exception) as end:
            log.debug("replayed", id=self.work.id, until=type(end).__name__)  # how it ends was decided before
        known = {call.place.position for call in self._compensations}
        for step in self.history.steps.values():
            if step.kind == "compensation" and step.position not in known:
                raise self._diverged(f"the code never came to compensation {step.key!r}")
        await self._unwind(ending, self.history.error or {})

    async def _unwind(self, ending: str, error: dict[str, Any]) -> None:
        """Decide, durably, that it goes backwards from here; undo; end."""
        self.unwinding = True
        if self._compensations and self.history.ending is None:
            with interrupting():
                if await self.host.db.fetchval(DECIDE, self.work.id, self.work.lease, ending, error) is None:
                    raise Superseded
            gate("workflow-after-decision")
        await self._cancel_children()
        for call in reversed(self._compensations):
            recorded = call.place.recorded
            if recorded is not None and recorded.state == "done":
                continue
            try:
                await call.carry_out(recorded)
            except StepFailed as failed:
                raise CompensationFailed(
                    f"compensation {call.place.key} of workflow {self.work.id} failed after {failed.attempts} attempts: "
                    f"{failed.type}: {failed.message}"
                ) from failed
        await self._finish(ending, ending, error=error)

    async def _cancel_children(self) -> None:
        """Those that this workflow still waits for; nothing, if the lease is lost: they are another run's by now."""
        with interrupting():
            for child in await self.host.db.fetch(CHILDREN, self.work.id):
                await self.host.db.execute(CANCEL_CHILD, self.work.id, self.work.lease, child["ref"])
                gate("workflow-after-child-cancel")


def _is_text(text: str) -> bool:
    """Whether PostgreSQL can hold it: half of a surrogate pair has no encoding."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
