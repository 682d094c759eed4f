"""Run the claimed work of one queue in a fixed number of slots.

Slots are long-lived tasks that take the next piece of work from a deque, so a fast handler needs no new task.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence

import structlog

from onceward.db import FAILED, Database, loudness
from onceward.telemetry.caller import work_span
from onceward.telemetry.logs import running
from onceward.telemetry.tracing import is_tracing
from onceward.work.claim import release
from onceward.work.claimed import Claimed
from onceward.work.executor import Executor
from onceward.work.leases import Leases
from onceward.work.outcomes import Cancelled, PayloadInvalid, TimedOut
from onceward.work.pacing import Pacing
from onceward.work.ready import Ready
from onceward.work.slot import Slot
from onceward.work.task import Task

log = structlog.get_logger(__name__)

GRACE_S = 5.0


class Slots:
    """The ready work of one queue and the slots that run it."""

    def __init__(
        self,
        db: Database,
        executor: Executor,
        leases: Leases,
        pacing: Pacing,
        tasks: Mapping[str, Task],
        *,
        own: Collection[Task],
        queue: str,
        suspect_ended: Callable[[], None],
        count: Callable[[str, Task, str, float], None],
    ) -> None:
        self._db = db
        self._executor = executor
        self._leases = leases
        self._pacing = pacing
        self._tasks = tasks
        self._queue = queue
        self._suspect_ended = suspect_ended
        self._count = count
        self.ready = Ready(tasks, own=own, connections=db.most_connections)
        self.hungry = asyncio.Event()
        """Set when the slots need more work."""
        self._idle: deque[asyncio.Future[None]] = deque()
        self._slots = [Slot(self._following) for _ in range(pacing.most_slots)]
        self._stopping = False

    # -- start and stop ----------------------------------------------------------------------------------------------------

    def start(self) -> None:
        for slot in self._slots:
            slot.task = asyncio.create_task(self._slot(slot), name=f"slot {self._queue}")

    def pause(self) -> None:
        """Begin no more work, except the next work of a slot that has already opened its transaction."""
        self._stopping = True
        self.hungry.set()

    async def stop(self, grace_s: float) -> None:
        """Release work that has not started, wait for running work, then cancel and release it."""
        await self._release(self.ready.clear())
        deadline = time.monotonic() + grace_s
        while self._pacing.busy and time.monotonic() < deadline:
            await asyncio.sleep(0.02)
        unfinished = [
            work for slot in self._slots for work in (slot.work, slot.next, *slot.batch[1:]) if work is not None
        ]
        tasks = [slot.task for slot in self._slots if slot.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks, timeout=GRACE_S)
        await self._release(unfinished)

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
        self.ready.extend(work)
        if not self._stopping:
            self._wake()

    def _wake(self) -> None:
        """Wake as many idle slots as there are pieces of work that may start and free places."""
        for _ in range(min(self.ready.startable, len(self._idle), self._pacing.free())):
            future = self._idle.popleft()
            if not future.done():
                future.set_result(None)

    async def _slot(self, slot: Slot) -> None:
        pacing, ready = self._pacing, self.ready
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
            except asyncio.CancelledError:
                if slot.stop_with is None or slot.task is None:
                    raise
                # The cancellation was meant for a handler that had ended. The slot must survive: a queue without slots runs nothing.
                slot.task.uncancel()
                log.error("slot.interrupted", queue=self._queue, id=work.id, task=work.task)
                self._give_up(slot)
            except Exception:
                # A bug in Onceward: the worker's claims loop releases the row at its next turn.
                log.exception("slot.failed", queue=self._queue, id=work.id, task=work.task)
                self._give_up(slot)
            finally:
                if ready.has_transactions:
                    ready.ended(work)
                pacing.ended(lent=slot.lent)
                slot.lent = False
                slot.work = None
                slot.batch = ()
            waiting = len(ready)
            if (waiting or self._stopping) and pacing.runs_low(waiting):
                self.hungry.set()

    def _give_up(self, slot: Slot) -> None:
        """Release only the work of this slot: other rows with the same lease may be running."""
        for work in slot.batch or (slot.work,):
            if work is not None:
                self._leases.give_up(work)

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
            self._wake()  # a transaction may have ended in this slot, which leaves its place to another slot
        return work

    def _following(self) -> Claimed | None:
        """Remove and return the work that a slot runs next on the connection that it has."""
        return None if self._stopping else self.ready.take_following()

    async def _run(self, slot: Slot, work: Claimed) -> None:
        task = self._tasks[work.task]
        slot.work = work
        work.db = self._db
        running.set(work)
        started = slot.started = time.monotonic()
        if work.kind != "job" and work.body is None:
            task = _without_body(task)
        if task.batch > 1:
            slot.batch = self.ready.take_batch(work, task.batch)
            executing = self._executor.run_batch(task, slot.batch, slot)
        else:
            executing = self._executor.run(task, work, slot)
        try:
            if is_tracing():
                with work_span(work):
                    outcome = await executing
            else:
                outcome = await executing
        finally:
            slot.ended()
            if work.suspect:
                self._suspect_ended()
        duration_s = time.monotonic() - started
        self._pacing.took(duration_s)
        if isinstance(outcome, str):
            self._count(self._queue, task, outcome, duration_s)
        else:
            for each in outcome:
                self._count(self._queue, task, each, duration_s / len(outcome))

    # -- timeouts and cancellation --------------------------------------------------------------------------------

    def check_deadlines(self) -> None:
        """Cancel handlers that exceeded their timeout, and cancel again those that ignored it. A loop calls this."""
        now = time.monotonic()
        for slot in self._slots:
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

    def cancel(self, ids: set[int]) -> None:
        """Cancel the work with these ids that runs in this queue."""
        for slot in self._slots:
            if slot.work is not None and slot.work.id in ids and slot.stop_with is None:
                slot.stop(Cancelled("cancelled by an operator"))


def _without_body(task: Task) -> Task:
    async def missing(_work: object, _tx: object) -> None:
        raise PayloadInvalid("the body of this work is missing: it was pruned or deleted by hand")

    return Task(name=task.name, run=missing, kind=task.kind, queue=task.queue, retry=task.retry)
