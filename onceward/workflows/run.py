"""One run of a workflow: it replays the recorded steps, runs the next ones, and ends in one of four ways.

run ──▶ finished      the function returned: one commit records the result and deletes the work row
    ──▶ parked        a sleep, a wait or a later retry: the workflow holds no slot, lease or connection
    ──▶ unwound       the workflow failed or was cancelled: compensations ran in reverse order
    ──▶ dead letter   the code diverged from the history, or a compensation failed: an operator decides
"""

from __future__ import annotations

import asyncio
from datetime import datetime
from typing import TYPE_CHECKING, Any, cast

import structlog

from onceward.db import RawJson, dump_json
from onceward.statements import read_statement
from onceward.work import Claimed, Host, Settled, Snooze, Superseded
from onceward.work.attempt_outcome import OutcomeName
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
from onceward.workflows.recorder import Ending, Record, Survivor
from onceward.workflows.reliance import UnconfirmedSteps
from onceward.workflows.step import Place, StepCall
from onceward.workflows.task import QUEUE, WorkflowTask

if TYPE_CHECKING:
    from onceward.workflows.workflow import Workflow

log = structlog.get_logger(__name__)

WAKE_WITHIN_S = 60.0
MAX_KEY = 300

DECIDE = read_statement("workflows", "begin_compensation")
CHILDREN = read_statement("workflows", "list_waiting_children")
CANCEL_CHILD = "select onceward.workflow_cancel_child_or_fail($1, $2, $3)"


class WorkflowRun:
    """The engine side of `Workflow`: positions, records and the end of the run."""

    def __init__(self, task: WorkflowTask[..., Any], work: Claimed) -> None:
        self.task = task
        self.work = work
        self.host = cast(Host, work.host)
        self.history = cast(History, work.body)
        self.unwinding = self.history.ending is not None
        self._recorder = self.history.recorders.of(self.host.db)
        self._last = self.history.last
        self._position = 0
        self._suspect = work.crashes > 0
        self._counts: dict[str, int] = {}
        self._keys: set[str] = set()
        self.unconfirmed = UnconfirmedSteps()
        self._compensations: list[StepCall[Any]] = []

    # -- the run ------------------------------------------------------------------------------------------------

    async def perform(self, workflow: Workflow) -> None:
        """Run until the workflow ends or parks.

        Never returns: raises `Settled`, or an error for the executor to classify.
        """
        try:
            await self._run_until_settled(workflow)
            return
        except Interrupted as interrupted:
            reason = interrupted.reason
        raise reason  # Without a cause: the executor would classify the lost connection a second time.

    async def _run_until_settled(self, workflow: Workflow) -> None:
        try:
            if self.unwinding:
                await self._replay_and_unwind(workflow)
            await self._advance(workflow)
        except Parked as parked:
            await self._park(parked)
        except Continued as continued:
            await self._continue(continued)

    async def _advance(self, workflow: Workflow) -> None:
        try:
            result = await self._call(workflow)
            self._require_all_steps_replayed()
            text = dump_json(result) if result is not None else None
        except (Snooze, WorkflowDiverged):
            raise
        except Exception as error:
            if is_transient(error):
                raise
            failure = describe(error)
            if isinstance(error, StepFailed):
                failure["step"] = error.key
            await self._unwind("failed", failure)
        else:
            await self._finish("success", result=text)

    async def _call(self, workflow: Workflow) -> Any:
        return await self.task.function(**{self.task.injected: workflow}, **self.task.load(self.history.args))

    # -- the sequence of steps ------------------------------------------------------------------------------------

    def place(self, kind: str, name: str, key: object = None) -> Place:
        """Return the next place in the sequence. Raises `WorkflowDiverged` if another step is recorded there."""
        position, full = self._position, self._full_key(name, key)
        recorded = self.history.steps.get(position)
        if recorded is not None and (recorded.kind, recorded.key) != (kind, full):
            raise self._diverged(f"the code asks for {kind} {full!r}, but {recorded.kind} {recorded.key!r} is recorded")
        if recorded is None and self.unwinding:
            raise Halted
        if position >= self.task.max_steps:
            raise TooManySteps(
                f"workflow {self.task.name} has reached max_steps ({position} steps): "
                "continue in a new history with wf.continue_as_new(...)"
            )
        self._position += 1
        self._keys.add(full)
        return Place(position, kind, full, name, recorded)

    def peek(self) -> tuple[str, str] | None:
        """Return the kind and key of the step recorded at the next position, if any."""
        recorded = self.history.steps.get(self._position)
        return None if recorded is None else (recorded.kind, recorded.key)

    @property
    def replaying(self) -> bool:
        """Whether a step is recorded at or after the next position."""
        return self._position <= self._last

    def _full_key(self, name: str, key: object) -> str:
        if key is None:
            number = self._counts[name] = self._counts.get(name, 0) + 1
            full = name if number == 1 else f"{name}#{number}"
        else:
            full = f"{name}:{key}"
        if len(full) > MAX_KEY or "\x00" in full or not _is_text(full):
            raise ValueError(
                f"step {name!r}: key must have at most {MAX_KEY - len(name)} characters, none of them NUL "
                f"or a surrogate"
            )
        if full in self._keys:
            raise ValueError(f"step {name}: key {key!r} is already used in this workflow: give every step a unique key")
        return full

    def _require_all_steps_replayed(self) -> None:
        if self._position <= self._last:
            left = self.history.steps[max(self.history.steps)]
            raise self._diverged(f"the code ended without asking for {left.kind} {left.key!r}, which is recorded")

    def _diverged(self, difference: str) -> WorkflowDiverged:
        return WorkflowDiverged(
            f"workflow {self.task.name} {self.work.id} at step {self._position}: {difference}. The workflow started "
            f"with code version {self.history.version}, this worker has {self.task.version}: deploy code that asks for "
            "the recorded steps (guard changes with wf.patched) and retry the workflow, or fork it"
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
        """Commit the state of a step. Return when the step is due next, or the time of this run if it is finished."""
        relied_on = self.unconfirmed.reliance
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
            relied_on.positions_text,
            relied_on.finished_text,
        )
        with interrupting():
            recorded = await self._recorder.record(record)
            if recorded is None:
                raise HistoryChanged(
                    0.0, "the lease was lost, another transaction answered the step, or an earlier step was lost"
                )
            self.unconfirmed.recorded(place.position, state, relied_on)
            if self._suspect:
                # This run got further than the one that crashed: earlier crashes no longer count against the workflow.
                await self._recorder.clear_crashes(Survivor(self.work.id, self.work.lease))
                self._suspect = False
        return recorded.due_at or self.history.now

    async def _finish(
        self, outcome: OutcomeName, *, result: str | None = None, error: dict[str, Any] | None = None
    ) -> None:
        gate("workflow-before-finish")
        error_json = None if error is None else dump_json(error)
        work = self.work
        relied_on = self.unconfirmed.reliance
        ending = Ending(
            work.id,
            work.lease,
            outcome,
            result,
            error_json,
            work.elapsed_s,
            self.host.worker,
            relied_on.positions_text,
            relied_on.finished_text,
        )
        with interrupting():
            ended = await self._recorder.finish(ending)
        if ended is None:
            raise _out_of_date()
        gate("workflow-after-finish")
        if ended.has_parent:
            self.host.wake(QUEUE)
        raise Settled(outcome)

    async def _park(self, parked: Parked) -> None:
        gate("workflow-before-park")
        work = self.work
        with interrupting():
            parked_now: bool = await self.host.db.fetchval(
                "select onceward.park_workflow($1, $2, $3, $4, $5)",
                work.id,
                work.lease,
                parked.until,
                list(parked.waiting),
                self.history.clock_moves,
            )
        if not parked_now:
            raise Superseded
        gate("workflow-after-park")
        self._wake_at(parked.until)
        raise Settled("parked")

    def _wake_at(self, until: datetime | None) -> None:
        """Wake a worker on time for a workflow that is due within a minute. Regular polling finds later ones."""
        if until is None:
            return
        in_s = (until - self.history.now).total_seconds()
        if in_s <= WAKE_WITHIN_S:
            asyncio.get_running_loop().call_later(max(0.0, in_s) + 0.001, self.host.wake, QUEUE)

    async def _continue(self, continued: Continued) -> None:
        """Start the next history in the commit that ends this one. A waiting parent then waits for the next one."""
        if self._compensations:
            raise ValueError(
                f"workflow {self.task.name}: continue_as_new is not possible after compensation "
                f"{self._compensations[-1].place.key} was registered: a new history does not keep compensations"
            )
        arguments = self.task.dump(continued.arguments)
        relied_on = self.unconfirmed.reliance
        gate("workflow-before-continue")
        with interrupting():
            new: int | None = await self.host.db.fetchval(
                "select onceward.workflow_continue($1, $2, $3, clock_timestamp() - make_interval(secs => $4), "
                "$5, $6, $7, $8)",
                self.work.id,
                self.work.lease,
                self.host.worker,
                self.work.elapsed_s,
                RawJson(arguments),
                self.task.version,
                relied_on.positions,
                relied_on.finished,
            )
        if new is None:
            raise _out_of_date()
        gate("workflow-after-continue")
        self.host.wake(QUEUE)
        raise Settled("success")

    # -- undoing ---------------------------------------------------------------------------------------------------

    def register(self, call: StepCall[Any]) -> None:
        """Remember a compensation. If the workflow fails or is cancelled, they run in reverse order."""
        self._compensations.append(call)

    async def _replay_and_unwind(self, workflow: Workflow) -> None:
        """Replay only the recorded steps, to collect the registered compensations, and run these."""
        ending = self.history.ending
        assert ending is not None
        try:
            await self._call(workflow)
        except WorkflowDiverged:
            raise
        except (Halted, Parked, Continued, Exception) as end:
            # The ending was decided before: how the replay ends does not matter.
            log.debug("workflow.replayed", id=self.work.id, ended_by=type(end).__name__)
        known = {call.place.position for call in self._compensations}
        for step in self.history.steps.values():
            if step.kind == "compensation" and step.position not in known:
                raise self._diverged(f"the code never registered compensation {step.key!r}, which is recorded")
        await self._unwind(ending, self.history.error or {})

    async def _unwind(self, ending: OutcomeName, error: dict[str, Any]) -> None:
        """Commit the decision to undo, run the compensations in reverse order, and end the workflow."""
        self.unwinding = True
        if self._compensations and self.history.ending is None:
            relied_on = self.unconfirmed.reliance
            with interrupting():
                decided = await self.host.db.fetchval(
                    DECIDE, self.work.id, self.work.lease, ending, error, relied_on.positions, relied_on.finished
                )
                if decided is None:
                    raise _out_of_date()
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
                    f"compensation {call.place.key} of workflow {self.work.id} failed after {failed.attempts} "
                    f"attempts: {failed.type}: {failed.message}"
                ) from failed
        await self._finish(ending, error=error)

    async def _cancel_children(self) -> None:
        """Cancel the children that this workflow waits for. If the lease was lost, cancel none: another run owns
        them."""
        with interrupting():
            for child in await self.host.db.fetch(CHILDREN, self.work.id):
                await self.host.db.execute(CANCEL_CHILD, self.work.id, self.work.lease, child["ref"])
                gate("workflow-after-child-cancel")


def _out_of_date() -> HistoryChanged:
    return HistoryChanged(0.0, "the lease was lost, or the history lacks a step that this run had recorded")


def _is_text(text: str) -> bool:
    """Whether PostgreSQL can store the text: a lone surrogate has no UTF-8 encoding."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
