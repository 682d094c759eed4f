"""Claim the due work of one queue and run it in a fixed number of slots.

Slots are long-lived tasks that take the next piece of work from a deque, so a fast handler needs no new task. The runner
prefetches work for handlers that it has measured to be fast. For handlers that call outside services it prefetches only
if every task of the queue has `ahead`.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import Callable, Generator, Sequence
from datetime import datetime

import asyncpg
import structlog

from onceward.db import BROKEN, Connection, Database, Unavailable, end, loudness
from onceward.telemetry.logs import running
from onceward.work.claim import BEGINNING, ClaimQuery, claim, claim_lanes, claim_suspect, release
from onceward.work.claim_connections import ClaimConnections
from onceward.work.claimed import Claimed
from onceward.work.executor import Executor
from onceward.work.leases import Leases
from onceward.work.outcomes import Cancelled, PayloadInvalid, TimedOut
from onceward.work.slot import Slot, SuspectTurn
from onceward.work.task import Registry, Task

log = structlog.get_logger(__name__)

QUICK_S = 0.05
"""Work for slower handlers is not prefetched: another worker may be free to run it."""
MOST_AHEAD = 1000
MOST_AT_ONCE = 500
"""Rows per claim when prefetching. A limit lets the next claim run while the slots still have work."""
AHEAD_FOR_S = 0.04
"""The runner prefetches as much work as the slots need in this time, until the next claim returns."""
GRACE_S = 5.0
MEASURED_S = 0.05
HANGS_S = 0.5
"""Work with `ahead` that takes longer is waiting for a service: the runner lends its place to other work."""
LENT = 2
"""The most places that are lent, as a multiple of the queue's concurrency."""
COLLECT_S = 0.004
"""A claim for work that calls outside services waits this long for more slots to become free."""
MOST_LANES = 500
"""The limit in onceward.claim_lanes. A claim that visited this many lanes and found nothing continues at once."""


class QueueRunner:
    """Claims and runs the work of one queue."""

    def __init__(
        self,
        db: Database,
        registry: Registry,
        executor: Executor,
        leases: Leases,
        suspects: SuspectTurn,
        connections: ClaimConnections,
        *,
        queue: str,
        worker: int,
        concurrency: int,
        poll_s: float,
        count: Callable[[str, Task, str, float], None],
    ) -> None:
        self._db = db
        self._executor = executor
        self._leases = leases
        self._suspects = suspects
        self._connections = connections
        self._count = count
        self.queue = queue
        self._worker = worker
        self._tasks = {task.name: task for task in registry if task.queue == queue}
        self._kinds = registry.kinds
        self._names = sorted(self._tasks)
        self._poll_s = poll_s
        self._ready: deque[Claimed] = deque()
        self._hungry = asyncio.Event()
        self._work_expected = asyncio.Event()
        self._idle: deque[asyncio.Future[None]] = deque()
        self._busy = 0
        self._mean_s = 1.0 if any(task.outside for task in self._tasks.values()) else 0.05
        self._per_slot = max((task.batch for task in self._tasks.values()), default=1)
        self._ahead_allowed = not any(task.outside for task in self._tasks.values())
        self._ahead_by_rate = not self._ahead_allowed and all(task.ahead for task in self._tasks.values())
        self._places = concurrency
        self._lent = 0
        slots = concurrency * (1 + LENT) if self._ahead_by_rate else concurrency
        self._slots = [Slot(self._upcoming) for _ in range(slots)]
        self._done = 0
        self._per_s = 0.0
        self._counted_at = time.monotonic()
        self._next_suspect = 0.0
        self._mark: datetime = BEGINNING
        self._from_start_at = 0.0
        self._cursor = ""
        self._has_lanes = True
        self._has_plain = True
        self._resume_s: float | None = None
        self._enough = max(1, concurrency // 4) if not self._ahead_allowed else 1
        self._stopping = asyncio.Event()
        self._loops: list[asyncio.Task[None]] = []

    # -- start and stop ----------------------------------------------------------------------------------------------------

    def start(self) -> None:
        for slot in self._slots:
            slot.task = asyncio.create_task(self._slot(slot), name=f"slot {self.queue}")
        self._loops = [asyncio.create_task(self._feed(), name=f"feed {self.queue}")]

    def wake(self, *, rescued: bool = False) -> None:
        """New or rescued work was committed: start the next claim at the beginning, not at the watermark."""
        self._mark = BEGINNING
        self._has_lanes = True
        self._has_plain = True
        self._next_suspect = 0.0 if rescued else self._next_suspect
        self._work_expected.set()

    async def stop(self, grace_s: float) -> None:
        """Stop claiming, release work that has not started, wait for running work, then cancel and release it."""
        self._stopping.set()
        # Let a running claim finish: a cancelled claim may still take rows, and this worker would not know which.
        self._hungry.set()
        self._work_expected.set()
        if self._loops:
            await asyncio.wait(self._loops, timeout=GRACE_S)
        await end(*self._loops)
        waiting = list(self._ready)
        self._ready.clear()
        await self._release(waiting)
        deadline = time.monotonic() + grace_s
        while self._busy and time.monotonic() < deadline:
            await asyncio.sleep(0.02)
        unfinished = [
            work for slot in self._slots for work in (slot.work, slot.next, *slot.batch[1:]) if work is not None
        ]
        for slot in self._slots:
            if slot.task is not None:
                slot.task.cancel()
        await asyncio.wait([slot.task for slot in self._slots if slot.task is not None], timeout=GRACE_S)
        await self._release(unfinished)

    async def _release(self, work: Sequence[Claimed]) -> None:
        if not work:
            return
        for each in work:
            self._leases.done(each)
        try:
            async with self._db.acquire() as conn:
                await release(conn, work)
        except (*BROKEN, Unavailable, asyncpg.PostgresError) as error:
            log.log(
                loudness(error), "work.release_failed", queue=self.queue, count=len(work), error=type(error).__name__
            )

    # -- feeding -------------------------------------------------------------------------------------------------

    def _free(self) -> int:
        """Return how many more pieces of work may run now."""
        return self._places - (self._busy - self._lent)

    def _room(self) -> int:
        """Return how many rows to claim: the free places, and some more when handlers are fast."""
        free = self._free() * self._per_slot - len(self._ready)
        if self._ahead_by_rate:
            return max(0, free + min(MOST_AHEAD, int(AHEAD_FOR_S * self._per_s)))
        if not self._ahead_allowed or self._mean_s > QUICK_S:
            return max(0, free)
        ahead = min(MOST_AHEAD, int(AHEAD_FOR_S * self._places / self._mean_s))
        room = free + ahead
        return min(room, MOST_AT_ONCE) if room >= min(ahead, MOST_AT_ONCE) // 2 else 0

    async def _feed(self) -> None:
        pause_s = 0.1
        while not self._stopping.is_set():
            try:
                self._measure()
                room = self._room()
                if room <= 0:
                    self._hungry.clear()
                    await self._hungry.wait()
                    continue
                if self._busy and room < self._enough:
                    # Most slots are busy: after a short wait one claim returns more work.
                    await asyncio.sleep(COLLECT_S)
                    room = self._room()
                self._work_expected.clear()
                if self._stopping.is_set():
                    return
                claimed = await self._claim(room)
                pause_s = 0.1
                if claimed == 0 and not self._stopping.is_set():
                    await self._wait_for_work()
            except (*BROKEN, Unavailable, asyncpg.PostgresError, TimeoutError) as error:
                log.log(
                    loudness(error), "claim.failed", queue=self.queue, error=type(error).__name__, retry_in_s=pause_s
                )
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(pause_s):
                        await self._stopping.wait()
                pause_s = min(5.0, pause_s * 2)

    async def _wait_for_work(self) -> None:
        try:
            async with asyncio.timeout(self._pause_s()):
                await self._work_expected.wait()
        except TimeoutError:
            self._has_lanes = True  # a poll looks for everything
            self._has_plain = True

    def _measure(self) -> None:
        """Update the throughput per second. Unlike the mean duration, a few slow handlers do not distort it."""
        now = time.monotonic()
        passed = now - self._counted_at
        if passed >= MEASURED_S:
            self._per_s += (self._done / passed - self._per_s) * min(1.0, passed * 5)
            self._done = 0
            self._counted_at = now

    def _pause_s(self) -> float:
        """Return the time until the next poll, or until a skipped lane may run again."""
        if self._resume_s is None:
            return self._poll_s
        return min(self._poll_s, max(0.001, self._resume_s))

    async def _claim(self, room: int) -> int:
        async with self._connections.use() as conn:
            return await self._claim_with(conn, room)

    async def _claim_with(self, conn: Connection, room: int) -> int:
        claimed = 0
        full = False
        if self._has_plain:
            taken = await self._claim_due(conn, room)
            claimed = await self._hand_out(conn, taken.work)
            # While claims return as many rows as requested, the next claim starts where this one ended and skips dead rows.
            full = claimed >= room
            self._mark = taken.reached if full else BEGINNING
            # A queue with lanes only is not searched for work outside lanes until a wake-up or a poll.
            self._has_plain = claimed > 0 or not self._has_lanes
        if self._stopping.is_set():
            return claimed
        if not full and not self._suspects.taken and self._suspects_due():
            claimed += await self._hand_out(conn, await self._claim_suspect(conn))
        if self._has_lanes and claimed < room:
            claimed += await self._hand_out(conn, await self._claim_lanes(conn, room - claimed))
        return claimed

    async def _hand_out(self, conn: Connection, work: list[Claimed]) -> int:
        """Give claimed work to the slots at once, before the next claim."""
        if work:
            await self._load(conn, work)
            self._ready.extend(work)
            if not self._stopping.is_set():
                self._wake_slots()
        return len(work)

    def _wake_slots(self) -> None:
        """Wake as many idle slots as there are ready pieces of work and free places."""
        for _ in range(min(len(self._ready), len(self._idle), self._free())):
            future = self._idle.popleft()
            if not future.done():
                future.set_result(None)

    def _suspects_due(self) -> bool:
        """Return whether to look for suspects now: once in a poll interval."""
        now = time.monotonic()
        if now < self._next_suspect:
            return False
        self._next_suspect = now + self._poll_s
        return True

    @contextlib.contextmanager
    def _lease(self) -> Generator[int]:
        """Create a lease for one claim. If the reply is lost, forget the lease, so that upkeep releases its rows."""
        lease = self._leases.begin()
        try:
            yield lease
        except BaseException:
            self._leases.lost(lease)
            raise

    def _start_of_claim(self) -> datetime:
        """Return the watermark, or the beginning once in a poll interval.

        Priority puts work before the watermark, and an enqueue through SQL or PgBouncer sends no wake-up.
        """
        now = time.monotonic()
        if self._mark == BEGINNING or now - self._from_start_at >= self._poll_s:
            self._from_start_at = now
            return BEGINNING
        return self._mark

    async def _claim_due(self, conn: Connection, room: int) -> ClaimQuery:
        with self._lease() as lease:
            taken = await claim(
                conn,
                queue=self.queue,
                tasks=self._names,
                most=room,
                lease=lease,
                worker=self._worker,
                mark=self._start_of_claim(),
            )
            self._leases.taken(lease, taken.work)
        return taken

    async def _claim_suspect(self, conn: Connection) -> list[Claimed]:
        with self._lease() as lease:
            work = await claim_suspect(conn, queue=self.queue, tasks=self._names, lease=lease, worker=self._worker)
            self._leases.taken(lease, work)
        self._suspects.taken = self._suspects.taken or bool(work)
        return work

    async def _claim_lanes(self, conn: Connection, room: int) -> list[Claimed]:
        freed = self._leases.freed
        with self._lease() as lease:
            taken = await claim_lanes(
                conn,
                queue=self.queue,
                tasks=self._names,
                most=room,
                lease=lease,
                worker=self._worker,
                cursor=self._cursor,
                suspect=not self._suspects.taken,
            )
            self._leases.taken(lease, taken.work)
        self._cursor = taken.cursor
        self._resume_s = taken.resume_s
        self._has_lanes = taken.visited > 0
        self._has_plain = self._has_plain or not self._has_lanes
        self._suspects.taken = self._suspects.taken or any(each.suspect for each in taken.work)
        if taken.visited and not taken.work:
            if taken.visited >= MOST_LANES or freed != self._leases.freed:
                self._work_expected.set()
            else:
                self._leases.when_freed(
                    self._work_expected
                )  # every lane may be full: claim again when a lane has a free place
        return taken.work

    async def _load(self, conn: Connection, work: list[Claimed]) -> None:
        """Load the bodies of work that is not a job, with one statement per kind."""
        others: dict[str, list[Claimed]] = {}
        for each in work:
            if each.kind != "job":
                others.setdefault(each.kind, []).append(each)
        for kind, group in others.items():
            bodies = await self._kinds[kind].load(conn, [each.id for each in group])
            for each in group:
                each.body = bodies.get(each.id)

    # -- running -------------------------------------------------------------------------------------------------

    async def _slot(self, slot: Slot) -> None:
        while True:
            if slot.next is None and (self._stopping.is_set() or not self._ready or self._free() <= 0):
                self._hungry.set()
                future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
                self._idle.append(future)
                await future
                continue
            work, slot.next = slot.next or self._ready.popleft(), None
            self._busy += 1
            try:
                await self._run(slot, work)
            except asyncio.CancelledError:
                if slot.stop_with is None or slot.task is None:
                    raise
                # The cancellation was meant for a handler that had ended. The slot must survive: a queue without slots runs nothing.
                slot.task.uncancel()
                log.error("slot.interrupted", queue=self.queue, id=work.id, task=work.task)
                self._give_up(slot)
            except Exception:
                # A bug in Onceward: the worker's claims loop releases the row at its next turn.
                log.exception("slot.failed", queue=self.queue, id=work.id, task=work.task)
                self._give_up(slot)
            finally:
                self._busy -= 1
                self._done += 1
                self._lent -= slot.lent
                slot.lent = False
                slot.work = None
                slot.batch = ()
                running.set(None)
            if (self._ready or self._stopping.is_set()) and len(self._ready) < self._places * 2:
                self._hungry.set()

    def _give_up(self, slot: Slot) -> None:
        """Release only the work of this slot: other rows with the same lease may be running."""
        for work in slot.batch or (slot.work,):
            if work is not None:
                self._leases.give_up(work)

    def _upcoming(self) -> Claimed | None:
        """Remove and return the next ready piece of work if it needs its own transaction."""
        if self._stopping.is_set() or not self._ready:
            return None
        work = self._ready[0]
        task = self._tasks[work.task]
        if not task.transactional or task.batch > 1 or (work.kind != "job" and work.body is None):
            return None
        return self._ready.popleft()

    async def _run(self, slot: Slot, work: Claimed) -> None:
        task = self._tasks[work.task]
        slot.work = work
        work.db = self._db
        running.set(work)
        started = slot.started = time.monotonic()
        if work.kind != "job" and work.body is None:
            task = _without_body(task)
        try:
            if task.batch > 1:
                slot.batch = self._gather(work, task)
                outcome = await self._executor.run_batch(task, slot.batch, slot)
            else:
                outcome = await self._executor.run(task, work, slot)
        finally:
            slot.ended()
            if work.suspect:
                self._suspects.taken = False
                self._next_suspect = 0.0
                self._work_expected.set()
        duration_s = time.monotonic() - started
        self._mean_s += (duration_s - self._mean_s) * 0.1
        self._count(self.queue, task, outcome, duration_s)

    def _gather(self, first: Claimed, task: Task) -> list[Claimed]:
        """Return `first` and more ready work of the same task and organization, for one commit."""
        batch = [first]
        others: deque[Claimed] = deque()
        while self._ready and len(batch) < task.batch:
            work = self._ready.popleft()
            same = work.task == task.name and work.organization == first.organization
            (batch if same else others).append(work)
        self._ready.extendleft(reversed(others))
        return batch

    # -- timeouts and cancellation --------------------------------------------------------------------------------

    def check_deadlines(self) -> None:
        """Cancel handlers that exceeded their timeout, and cancel again those that ignored it. A loop calls this."""
        now = time.monotonic()
        for slot in self._slots:
            if slot.work is None:
                continue
            if self._ahead_by_rate and not slot.lent and now - slot.started > HANGS_S:
                slot.lent = self._lend()
            if slot.stop_with is not None:
                slot.stop(slot.stop_with)
            elif slot.deadline is not None and now > slot.deadline:
                slot.stop(TimedOut(f"{slot.work.task} ran longer than its timeout"))

    def _lend(self) -> bool:
        if self._lent >= self._places * LENT:
            return False
        self._lent += 1
        self._wake_slots()
        self._hungry.set()
        return True

    def cancel(self, ids: set[int]) -> None:
        """Cancel the work with these ids that runs in this queue."""
        for slot in self._slots:
            if slot.work is not None and slot.work.id in ids and slot.stop_with is None:
                slot.stop(Cancelled("cancelled by an operator"))


def _without_body(task: Task) -> Task:
    async def missing(_work: object, _tx: object) -> None:
        raise PayloadInvalid("the body of this work is missing: it was pruned or deleted by hand")

    return Task(name=task.name, run=missing, kind=task.kind, queue=task.queue, retry=task.retry)
