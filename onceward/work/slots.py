"""Run the claimed work of one queue in a fixed number of slots.

Slots are long-lived tasks that take the next piece of work from a deque, so a fast handler needs no new task.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from functools import partial
from typing import Any, cast

import structlog

from onceward.background import Loop
from onceward.background.loop import LONGEST_STEP_S
from onceward.db import FAILED, Database, loudness
from onceward.db.unreadable import Unreadable
from onceward.telemetry.caller import work_span
from onceward.telemetry.logs import running
from onceward.telemetry.tracing import is_tracing
from onceward.trust.errors import UnknownSecretKey
from onceward.work.attempt_outcome import FAILURES, CountedOutcome
from onceward.work.claim import release
from onceward.work.claim_size import Pacing
from onceward.work.claimed import Claimed
from onceward.work.commit_sharing import PATIENCE_S, Ended, Member, WaitedTooLong
from onceward.work.executor import Executor
from onceward.work.leaks import leaked
from onceward.work.leases import Leases
from onceward.work.outcomes import Cancelled, PayloadInvalid, Permanent, Snooze, TimedOut
from onceward.work.ready import Ready
from onceward.work.slot import Slot
from onceward.work.suspects import Suspects
from onceward.work.task import Task
from onceward.work.threads import HandlerThreads
from onceward.work.usage import USAGE

log = structlog.get_logger(__name__)

GRACE_S = 5.0
OTHER_KEY_S = 2.0
"""Work that this node cannot decrypt waits this long for another node, or for a restart of this one with the key.

Short, because this node may be the first to claim it again, many times in a row.
"""
NOT_STOPPED = "it runs until the process ends; then another worker rescues its work, and this counts as a crash"


Count = Callable[[str, Task, CountedOutcome, float, int], None]
"""Counts a finished attempt: its queue, task, outcome and duration, and how many shared its commit."""


class Slots:
    """The ready work of one queue and the slots that run it."""

    def __init__(
        self,
        db: Database,
        executor: Executor,
        leases: Leases,
        pacing: Pacing,
        suspects: Suspects,
        tasks: Mapping[str, Task],
        *,
        own: Collection[Task],
        queue: str,
        shares: bool = True,
        suspect_ended: Callable[[], None],
        count: Count,
    ) -> None:
        self._db = db
        self._shares = shares
        self._executor = executor
        self._leases = leases
        self._pacing = pacing
        self._suspects = suspects
        self._waiting: list[Claimed] = []
        """The suspect of this queue that waits for the end of all other work."""
        self._tasks = tasks
        self._queue = queue
        self._suspect_ended = suspect_ended
        self._count = count
        self.ready = Ready(
            tasks,
            own=own,
            connections=lambda: db.most_connections,
            line_of=executor.sharing.line_of,
            wake=self._wake,
        )
        self.hungry = asyncio.Event()
        """Set when the slots need more work."""
        self._idle: deque[asyncio.Future[None]] = deque()
        self.slots = [Slot(self._following, self._joining) for _ in range(pacing.most_slots)]
        self._loops = [
            Loop(
                f"slot {queue}",
                partial(self._slot, slot),
                longest_step_s=LONGEST_STEP_S,
                busy_with=slot.busy_with,
                instead_of_close=leaked,
            )
            for slot in self.slots
        ]
        self._stopping = False
        self._threads: HandlerThreads | None = None

    # -- start and stop
    # ----------------------------------------------------------------------------------------------------

    async def start(self, threads: HandlerThreads) -> None:
        for slot, loop in zip(self.slots, self._loops, strict=True):
            await loop.start()
            slot.task = loop.task
            if loop.task is not None:
                threads.register(loop.task, slot)
        self._threads = threads

    def pause(self) -> None:
        """Begin no more work, except the next work of a slot that has already opened its transaction."""
        self._stopping = True
        self.hungry.set()

    async def stop(self, grace_s: float) -> list[Claimed]:
        """Release work that has not started, wait for running work, then cancel and release it.

        Return the work of handlers that could not be stopped: it stays leased, because they run until the process ends.
        """
        waiting = [*self.ready.clear(), *self._waiting]
        self._suspects.take_back(waiting)
        await self._release(waiting)
        deadline = time.monotonic() + grace_s
        while self._pacing.busy and time.monotonic() < deadline:
            await asyncio.sleep(0.02)
        unfinished = [(slot, slot.held()) for slot in self.slots]
        in_threads = [slot for slot in self.slots if slot.call is not None and slot.call.has_started]
        tasks = [slot.task for slot in self.slots if slot.task is not None]
        for slot in self.slots:
            slot.closing = True
        if self._threads is not None:
            self._threads.abandon()
        for loop in self._loops:
            loop.leave()
        for task in tasks:
            task.cancel()
        _, ignoring = await asyncio.wait(tasks, timeout=GRACE_S)
        stuck: list[Claimed] = []
        for slot, works in unfinished:
            if slot in in_threads or slot.task in ignoring:
                stuck += works
            else:
                await self._release(works)
        for work in stuck:
            log.error("handler.not_stopped", queue=self._queue, id=work.id, task=work.task, hint=NOT_STOPPED)
        return stuck

    async def _release(self, work: Sequence[Claimed]) -> None:
        if not work:
            return
        for each in work:
            self._leases.done(each)
        try:
            async with self._db.acquire() as conn:
                await release(conn, work)
        except FAILED as error:
            log.log(
                loudness(error), "work.release_failed", queue=self._queue, count=len(work), error=type(error).__name__
            )

    # -- running -------------------------------------------------------------------------------------------------

    def add(self, work: Sequence[Claimed]) -> None:
        """Give claimed work to the slots."""
        suspect = self._suspects.held
        if suspect is None or not any(each is suspect for each in work):
            self._begin(work)
            return
        self._waiting = [suspect]
        self._begin([each for each in work if each is not suspect])
        self._suspects.begin_alone(self._begin_suspect)

    def _begin_suspect(self, suspect: Claimed) -> None:
        self._waiting = []
        self._begin([suspect])

    def _begin(self, work: Sequence[Claimed]) -> None:
        self.ready.extend(work)
        if not self._stopping:
            self._wake()

    def _wake(self) -> None:
        """Wake as many idle slots as there are pieces of work that may start and free slots."""
        count = min(self.ready.startable, self._pacing.free())
        while count > 0 and self._idle:
            future = self._idle.popleft()
            if not future.done():  # a slot that was interrupted while it waited does not wait here any more
                future.set_result(None)
                count -= 1

    async def _slot(self, slot: Slot) -> None:
        pacing, ready = self._pacing, self.ready
        cancelling = cast("asyncio.Task[None]", asyncio.current_task()).cancelling
        while True:
            work, slot.next = slot.next or self._take(), None
            if work is None:
                self.hungry.set()
                future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
                self._idle.append(future)
                running.set(None)
                await future
                continue
            if ready.has_transactions:
                ready.started(work)
            pacing.busy += 1
            try:
                await self._run(slot, work)
            except (asyncio.CancelledError, SystemExit) as error:
                if slot.must_end():
                    raise
                # A handler cancelled its own task and then ended. The slot must survive: a queue without slots runs
                # nothing.
                log.error("slot.interrupted", queue=self._queue, id=work.id, task=work.task, error=type(error).__name__)
                await self._fail(slot, leaked(error))
            except Exception as error:
                # A bug in Onceward.
                log.exception("slot.failed", queue=self._queue, id=work.id, task=work.task)
                await self._fail(slot, error)
            finally:
                if ready.has_transactions:
                    ready.ended(work)
                works = slot.batch or (work,)
                pacing.ended(lent=slot.lent, done=len(works))
                slot.lent = False
                slot.work = None
                if slot.batch:
                    slot.forget_batch()
            if cancelling():
                await self._absorb_cancellation(slot)
            if len(works) > 1 or (ready.has_transactions and ready.behind):
                await self._go_on_in_lanes(works)
            waiting = len(ready)
            if (waiting or self._stopping) and pacing.runs_low(waiting):
                self.hungry.set()

    async def _go_on_in_lanes(self, works: Sequence[Claimed]) -> None:
        """Let ordered lanes go on after their work has ended. Release what must not run, because the work before it
        has not succeeded."""
        blocked = [work for work in works if work.is_blocked and self._leases.holds(work)]
        for work in works:
            blocked += self.ready.go_on_after(work)
        await self._release(blocked)

    async def _fail(self, slot: Slot, error: Exception) -> None:
        """Settle the work of a slot that was interrupted. What had been committed before is left as it is."""
        slot.forget_cancellation()
        works = [work for work in slot.batch or (slot.work,) if work is not None and self._leases.holds(work)]
        for work in works:
            if work.is_blocked:
                continue
            task = self._tasks[work.task]
            try:
                if len(works) > 1:
                    await self._run_alone(slot, task, work)
                else:
                    await self._executor.settler.fail(task, work, error)
            except Exception:
                # Only this row: others with the same lease may be running. The worker's claims loop releases it at its
                # next turn.
                log.exception("slot.settle_failed", queue=self._queue, id=work.id, task=work.task)
                self._leases.give_up(work)

    async def _run_alone(self, slot: Slot, task: Task, work: Claimed) -> None:
        """Run one member of a batch or group that was interrupted: only the one that interrupts its slot again has
        failed."""
        try:
            await self._executor.run_alone(task, work, slot)
        except (Exception, asyncio.CancelledError, SystemExit) as error:
            if slot.must_end():
                raise
            slot.forget_cancellation()
            await self._executor.settler.fail(task, work, error if isinstance(error, Exception) else leaked(error))

    async def _absorb_cancellation(self, slot: Slot) -> None:
        """End a cancellation that was meant for the handler that has ended: the next handler must not get it."""
        if slot.must_end():
            raise asyncio.CancelledError
        slot.forget_cancellation()
        try:
            await asyncio.sleep(0)  # before Python 3.13 a cancellation that was not raised yet can only be awaited
        except asyncio.CancelledError:
            if slot.must_end():
                raise
            slot.forget_cancellation()

    def _take(self) -> Claimed | None:
        """Remove and return the next work that a slot may start now."""
        if self._stopping or self._pacing.free() <= 0:
            return None
        ready = self.ready
        work = ready.take()
        if (
            ready.has_transactions
            and work is not None
            and not ready.needs_connection(work)
            and ready.startable_transactions
        ):
            self._wake()  # a transaction may have ended in this slot, which lets another slot start one
        return work

    def _following(self) -> Claimed | None:
        """Remove and return the work that a slot runs next on the connection that it has."""
        return None if self._stopping else self.ready.take_following()

    def quick(self) -> Sequence[str]:
        """Return the tasks of which several rows of an ordered lane may be claimed together."""
        return (
            self._executor.sharing.quick(self._tasks.values()) if self._shares and self.ready.has_transactions else ()
        )

    def _joining(self, last: Claimed, fits: Callable[[Task, Claimed], bool]) -> Member | None:
        """Remove and return the work that runs next in the open transaction of a slot."""
        if self._stopping or not self._shares:
            return None
        work = self.ready.take_joining(last, self._pacing.free(), fits)
        if work is None:
            return None
        if self._pacing.runs_low(len(self.ready)):
            self.hungry.set()
        return Member(self._tasks[work.task], work)

    async def _run(self, slot: Slot, work: Claimed) -> None:
        task = self._tasks[work.task]
        slot.work = work
        work.db = self._db
        running.set(work)
        started = slot.started = time.monotonic()
        if work.kind != "job" and (work.body is None or type(work.body) is Unreadable):
            task = _without_body(task, work.body)
        if work.cancelled:
            task = _cancelled(task)
        if task.batch > 1:
            slot.batch = self.ready.take_batch(work, task.batch)
            executing: Coroutine[Any, Any, CountedOutcome | Sequence[CountedOutcome | Ended]] = (
                self._executor.batches.run(task, slot.batch, slot)
            )
        else:
            executing = self._executor.run(task, work, slot)
        try:
            if is_tracing() and (task.batch > 1 or not task.transactional):  # others have a span for each handler
                with work_span(work, slot.batch) as recorded:
                    outcome = await executing
                    if isinstance(outcome, str) and outcome in FAILURES:
                        recorded.fail(outcome)
            else:
                outcome = await executing
        finally:
            slot.ended()
            if work.suspect:
                self._suspect_ended()
        duration_s = time.monotonic() - started
        if type(work.body) is Unreadable and isinstance(work.body.error, UnknownSecretKey):
            # Other nodes learn when it is due. Otherwise only this one knows, and claims it first again and again.
            self._executor.wake(self._queue)
        if isinstance(outcome, str):
            self._pacing.took(duration_s)
            self._count(self._queue, task, outcome, duration_s, 1)
            USAGE.worked(work.organization, duration_s)
            return
        share_s = duration_s / len(outcome)
        self._pacing.took(share_s)
        for each in outcome:
            if isinstance(each, str):
                self._count(self._queue, task, each, share_s, 1)
                USAGE.worked(work.organization, share_s)
            else:
                USAGE.worked(each.organization, each.seconds)
                self._count(self._queue, each.task, each.outcome, each.seconds, each.shared)

    # -- timeouts and cancellation --------------------------------------------------------------------------------

    def check_deadlines(self) -> None:
        """Cancel handlers that exceeded their timeout, and cancel again those that ignored it. A loop calls this."""
        now = time.monotonic()
        for slot in self.slots:
            if slot.work is None:
                continue
            if not slot.lent and self._pacing.lend(now - slot.started):
                slot.lent = True
                self._wake()
                self.hungry.set()
            if slot.stop_with is not None:
                slot.stop(slot.stop_with)
            elif slot.deadline is not None and now > slot.deadline:
                slot.stop(TimedOut(f"{slot.work.task} ran longer than its timeout"))
            elif slot.group_since is not None and now - slot.group_since > PATIENCE_S:
                slot.stop(WaitedTooLong("the handler held up others that share its transaction, and runs again alone"))

    def held(self) -> set[int]:
        """Return the ids of all work that the slots run or will run."""
        works = [*self.ready.all(), *self._waiting, *(work for slot in self.slots for work in slot.held())]
        return {work.id for work in works}

    def cancel(self, ids: set[int]) -> None:
        """Cancel the work with these ids that runs or waits in this queue."""
        if self.ready.cancel(ids):
            self._wake()
        for slot in self.slots:
            if slot.work is not None:
                slot.cancel(ids)


def _without_body(task: Task, body: Unreadable | None) -> Task:
    async def missing(_work: object, _tx: object) -> None:
        if body is None:
            raise PayloadInvalid("the body of this work is missing: it was pruned or deleted by hand")
        if isinstance(body.error, UnknownSecretKey):
            # Another node may know the key. `onceward doctor` names values whose key a machine lacks.
            raise Snooze(OTHER_KEY_S, f"this node cannot decrypt the body: {body.error}") from body.error
        raise Permanent(f"the body of this work cannot be read: {type(body.error).__name__}") from body.error

    return Task(name=task.name, run=missing, kind=task.kind, queue=task.queue, retry=task.retry)


def _cancelled(task: Task) -> Task:
    async def cancelled(_work: object, _tx: object) -> None:
        raise Cancelled("cancelled by an operator before it started")

    return Task(name=task.name, run=cancelled, kind=task.kind, queue=task.queue, retry=task.retry)
