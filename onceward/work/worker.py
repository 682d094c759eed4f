"""A worker: one runner per queue, a heartbeat, and the loops that keep the tables in order."""

from __future__ import annotations

import asyncio
import os
import secrets
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import structlog

from onceward.background import Loop
from onceward.db import Database
from onceward.db.turns import in_background
from onceward.trust.metrics_events import record_metrics
from onceward.work.attempt_outcome import CountedOutcome
from onceward.work.batching import in_batches
from onceward.work.claim import release
from onceward.work.claim_connections import ClaimConnections
from onceward.work.claimed import Claimed
from onceward.work.end_hooks import register_end_hooks
from onceward.work.executor import Executor
from onceward.work.external import register_external_tasks
from onceward.work.forms import form
from onceward.work.heartbeat import Heartbeat, WorkerIdentity
from onceward.work.host import Opener
from onceward.work.kind_routines import check_routines
from onceward.work.leases import Leases
from onceward.work.overdue import EXIT_CODE, OverdueReport
from onceward.work.processes import HandlerProcesses
from onceward.work.rescue import Rescued, Rescuer
from onceward.work.runner import QueueRunner
from onceward.work.settle import Acknowledger
from onceward.work.slots import Count
from onceward.work.statements import FORGET_UNIQUE_KEYS, FORGET_USAGE, WAITING_QUEUES
from onceward.work.suspects import Suspects
from onceward.work.task import AppRegistry, Task, open_transaction
from onceward.work.threads import HandlerThreads
from onceward.work.unserved import UnservedWalk
from onceward.work.upkeep import forget_finished, old_jobs, release_orphans, release_unknown
from onceward.work.wake import Waker
from onceward.work.walk import WINDOW, Walk
from onceward.work.worker_locks import WorkerLocks

log = structlog.get_logger(__name__)

ACCUSE_S = 3.0
QUEUES_S = 2.0
MISLAID_TURNS = 30
MISLAID = (
    "a mistake in Onceward: no slot of this process has it, and it is pending again; please report it with this line"
)
"""How often a worker looks for queues with work and without a runner. A wake-up makes it look at once."""
MOST_QUEUES = 100
"""The most queues of one worker: each has slots of its own and polls."""
NOT_FOR_WORKERS = ("external", "unhandled")
"""Programs in other languages claim from the first; the inbox moves events out of the second."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerOptions:
    """Settings of one worker."""

    concurrency: int = 64
    queue_concurrency: Mapping[str, int] = field(default_factory=dict[str, int])
    only_queues: Sequence[str] | None = None
    poll_s: float = 1.0
    beat_s: float = 1.0
    observe_s: float = 2.0
    settle_s: float = 30.0
    grace_s: float = 30.0
    keep_finished: timedelta = timedelta(days=7)
    version: str = "0"
    blocked_limit_s: float = 0.0
    """End the process when overdue handlers have held all slots of a queue for so long. 0: never."""
    end: Callable[[int], None] = os._exit
    """Ends the process with this exit code."""
    unshared_queues: Sequence[str] = ()
    """Queues whose handlers never share a commit."""
    fair: bool = True
    """Whether organizations take turns while work waits. False, for comparisons: all work in one line by time."""
    locks_dir: Path | None = None
    """A directory that all workers of the database share, for kernel locks that prove the death of a process."""

    def __post_init__(self) -> None:
        if self.concurrency < 1:
            raise ValueError(f"concurrency must be at least 1, not {self.concurrency}")


def uncounted(_queue: str, _task: Task, _outcome: CountedOutcome, _seconds: float, _shared: int) -> None:
    """Count nothing: the default when a worker has no metrics."""


class Worker:
    """Claims and runs the work of its queues between `start` and `stop`."""

    def __init__(
        self,
        db: Database,
        registry: AppRegistry,
        waker: Waker,
        *,
        options: WorkerOptions | None = None,
        open_tx: Opener = open_transaction,
        count: Count = uncounted,
    ) -> None:
        self._db = db
        self._registry = registry
        self._options = options or WorkerOptions()
        self._waker = waker
        self.id = secrets.randbits(62) + 1
        self._leases = Leases()
        self._acks = Acknowledger(db, self.id, self._leases, kinds=registry.kinds)
        self._threads = HandlerThreads()
        self._processes = HandlerProcesses()
        executor = Executor(
            db,
            worker=self.id,
            acks=self._acks,
            leases=self._leases,
            open_tx=open_tx,
            wake=waker.wake,
            hooks=registry.end_hooks,
            threads=self._threads,
            processes=self._processes,
        )
        self._executor = executor
        self._suspects = Suspects(self._leases)
        self._count = count
        self._claim_connections = ClaimConnections(db)
        only_queues = self._options.only_queues
        queues = {task.queue for task in registry} if only_queues is None else set(only_queues)
        self._runners = [self._runner(queue) for queue in sorted(queues)]
        self._grow_threads()
        self._overdue = OverdueReport(db, self.id, self._threads)
        tasks = sorted(registry.tasks)
        self.identity = WorkerIdentity(
            id=self.id,
            name=f"{socket.gethostname()}:{os.getpid()}",
            version=self._options.version,
            queues=[runner.queue for runner in self._runners],
            tasks=tasks,
            apps=sorted(registry.apps),
            forms=[form(registry.tasks[name]) for name in tasks],
        )
        locks_dir = self._options.locks_dir
        self._locks = None if locks_dir is None else WorkerLocks(locks_dir)
        self._rescuer = Rescuer(
            apart_s=self._options.observe_s * 0.75, settle_s=self._options.settle_s, locks=self._locks
        )
        self._unserved = UnservedWalk()
        self._orphans = Walk(size=4 * WINDOW)  # the cheaper and rarer look takes larger windows
        self._queues = Loop("queues", self.serve_waiting_queues, every_s=QUEUES_S)
        self._seen: set[str] = set()
        """Queues without a runner that wake-ups have named lately."""
        self._seen_since = 0.0
        self._has_too_many = False
        self._loops = [
            *([] if only_queues is not None else [self._queues]),
            Loop("deadlines", self._check_deadlines, every_s=0.25),
            Loop("contention", self._observe_locks, every_s=0.1),
            Loop("rescue", self.rescue, every_s=self._options.observe_s),
            Loop("claims", self._tidy_claims, every_s=1.0),
            Loop("unserved", self._visit_unserved, every_s=10.0),
            Loop("orphans", self._release_orphans, every_s=30.0),
            Loop("prune", self._prune, every_s=30.0),
        ]
        self._heartbeat: Heartbeat | None = None
        self._turn = 0
        self._blocked_since: float | None = None
        self.is_stuck = False
        """Whether handlers ran on when the worker stopped.

        Only the end of the process ends them; then others rescue their work.
        """

    async def start(self) -> None:
        """Register the worker, then start to claim."""
        loop = asyncio.get_running_loop()
        if self._locks is not None:
            self._locks.hold(self.id)
        await check_routines(self._db, self._registry.kinds.values())
        await Heartbeat.register(self._db, self.identity)
        await register_end_hooks(self._db, self._registry)
        await register_external_tasks(self._db, self._registry)
        self._heartbeat = Heartbeat(
            self._db.url,
            self.identity,
            pgbouncer=self._db.pgbouncer,
            every_s=self._options.beat_s,
            on_cancel=lambda ids: loop.call_soon_threadsafe(self._cancel, ids) and None,
        )
        self._heartbeat.start()
        self._waker.listen(self._wake, works_on=self.identity.queues)
        with in_background():
            for runner in self._runners:
                await runner.start(self._threads)
            for each in self._loops:
                await each.start()
        log.info("worker.started", worker=self.id, queues=self.identity.queues, tasks=len(self.identity.tasks))

    async def stop(self) -> None:
        """Finish running work within the grace time, release the rest, then delete the worker's row."""
        log.info("worker.stop_started", worker=self.id)
        for each in self._loops:
            await each.stop()
        stopped = await asyncio.gather(*(runner.stop(self._options.grace_s) for runner in self._runners))
        stuck = [work for works in stopped for work in works]
        await self._processes.close()
        await self._claim_connections.close()
        await self._acks.close()
        if self._heartbeat is not None:
            await asyncio.to_thread(self._heartbeat.stop)
        async with self._db.acquire() as conn:
            # Except what is stuck nothing runs here: rows that still carry a lease of this worker were claimed and
            # never started.
            await release_unknown(conn, self.id, {work.lease for work in stuck}.__contains__)
            if not stuck:
                await conn.execute("delete from onceward.workers where id = $1", self.id)
        if self._locks is not None and not stuck:
            self._locks.release(self.id)
        log.info("worker.stopped", worker=self.id, stuck=len(stuck))
        self.is_stuck = bool(stuck)

    # -- the end of the process ----------------------------------------------------------------------------------

    def running_in(self, task: asyncio.Task[Any]) -> Sequence[Claimed]:
        """Return the work that this asyncio task runs: several pieces if they are a batch, none if it is not a slot."""
        for runner in self._runners:
            for slot in runner.slots:
                if slot.task is task and slot.work is not None:
                    return slot.batch or (slot.work,)
        return ()

    def accuse(self, ids: list[int]) -> None:
        """Tell other workers that this process ends itself because of this work: the rest of its work counts no
        crash."""
        if self._heartbeat is not None:
            self._heartbeat.accuse(ids, within_s=ACCUSE_S)

    def _end_if_stuck(self) -> None:
        """End the process when overdue handlers have held all slots of a queue for too long: nothing else of it
        could run."""
        overdue = self._overdue.found
        blocked = [
            runner for runner in self._runners if all(slot.work and slot.work.id in overdue for slot in runner.slots)
        ]
        now = time.monotonic()
        self._blocked_since = (self._blocked_since or now) if blocked else None
        limit_s = self._options.blocked_limit_s
        if self._blocked_since is None or not limit_s or now - self._blocked_since < limit_s:
            return
        ids = sorted(overdue)
        queues = [runner.queue for runner in blocked]
        log.error("worker.ended_itself", worker=self.id, queues=queues, overdue=ids[:100], count=len(ids))
        self.accuse(ids)
        self._options.end(EXIT_CODE)

    def _grow_threads(self) -> None:
        self._threads.grow(sum(len(runner.slots) for runner in self._runners))

    def _runner(self, queue: str) -> QueueRunner:
        return QueueRunner(
            self._db,
            self._registry,
            self._executor,
            self._leases,
            self._suspects,
            self._claim_connections,
            self._waker.idle_flags,
            queue=queue,
            worker=self.id,
            concurrency=self._options.queue_concurrency.get(queue, self._options.concurrency),
            poll_s=self._options.poll_s,
            shares=queue not in self._options.unshared_queues,
            fair=self._options.fair,
            count=self._count,
        )

    def _wake(self, queue: str) -> None:
        for runner in self._runners:
            if runner.queue == queue:
                runner.wake()
                return
        if queue not in self._seen and queue not in NOT_FOR_WORKERS:
            self._seen.add(queue)
            self._queues.nudge()

    def _cancel(self, ids: set[int]) -> None:
        for runner in self._runners:
            runner.cancel(ids)

    async def serve_waiting_queues(self) -> list[str]:
        """Begin to work on queues in which work of a known task waits, although no task was declared for them.

        `job.in_queue(...)` and SQL may name any queue, and a deploy may move a task to another queue. A worker with
        `only_queues` works on these alone.
        """
        served = [runner.queue for runner in self._runners]
        rows = await self._db.fetch(WAITING_QUEUES, [*served, *NOT_FOR_WORKERS], self.identity.tasks)
        # In this time, all wake-ups of a queue of another app cause one look.
        if time.monotonic() - self._seen_since >= QUEUES_S:
            self._seen.clear()
            self._seen_since = time.monotonic()
        found = [row["queue"] for row in rows]
        room = max(0, MOST_QUEUES - len(served))
        too_many = found[room:]
        if too_many and not self._has_too_many:
            log.warning("queues.too_many", not_served=too_many[:10], most=MOST_QUEUES, hint="use lanes for many keys")
        self._has_too_many = bool(too_many)
        del found[room:]
        for queue in found:
            runner = self._runner(queue)
            self._runners.append(runner)
            self._grow_threads()
            with in_background():
                await runner.start(self._threads)
            self._waker.also_works_on(queue)
            self.identity.queues.append(queue)
            log.info("queue.served", worker=self.id, queue=queue)
        if found:  # the heartbeat would write it a moment later
            await self._db.execute(
                "update onceward.workers set queues = $2 where id = $1", self.id, self.identity.queues
            )
        return found

    # -- the steps of the loops -----------------------------------------------------------------------------------

    async def _check_deadlines(self) -> None:
        for runner in self._runners:
            runner.check_deadlines()
        self._suspects.check()
        self._end_if_stuck()
        await self._overdue.report(slot for runner in self._runners for slot in runner.slots)

    async def _observe_locks(self) -> None:
        await self._executor.sharing.observe(self._db)

    async def rescue(self) -> list[Rescued]:
        """Look once for silent workers and release the work that they held."""
        async with self._db.acquire() as conn:
            rescued = await self._rescuer.step(conn, own=self.id)
            await record_metrics(
                conn,
                "orphaned_job_recovery",
                [
                    (
                        each.id,
                        {"worker": str(each.worker), "kind": each.kind, "task": each.task, "crashes": each.crashes},
                    )
                    for each in rescued
                ],
            )
        if rescued:
            for runner in self._runners:
                runner.wake()
        return rescued

    async def _tidy_claims(self) -> None:
        self._turn += 1
        given_up = self._leases.take_given_up()
        try:
            async with self._db.acquire() as conn:
                await release(conn, given_up)
        except BaseException:
            for work in given_up:
                self._leases.give_up(work)
            raise
        for work in given_up:
            self._leases.done(work)
        finished = self._leases.take_finished()
        async with self._db.acquire() as conn:
            await forget_finished(conn, finished)
            if self._turn % 5 == 0:
                await release_unknown(conn, self.id, self._leases.knows)
        if self._turn % MISLAID_TURNS == 0:
            for work in self._leases.mislaid({id for runner in self._runners for id in runner.held()}):
                log.error("work.mislaid", id=work.id, kind=work.kind, task=work.task, hint=MISLAID)
                self._leases.give_up(work)

    async def _visit_unserved(self) -> None:
        async with self._db.acquire() as conn:
            await self._unserved.step(conn)

    async def _release_orphans(self) -> None:
        async with self._db.acquire() as conn:
            await release_orphans(conn, self._orphans)

    async def _prune(self) -> None:
        await old_jobs(self._db, keep=self._options.keep_finished).all()
        await in_batches(partial(self._db.fetchval, FORGET_UNIQUE_KEYS))
        await in_batches(partial(self._db.fetchval, FORGET_USAGE))
