"""Run work in a test, without a worker and without sleeping."""

from __future__ import annotations

import secrets
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, ParamSpec, TypeVar, cast
from uuid import UUID

from onceward.engine import Engine
from onceward.telemetry.logs import running
from onceward.work import AppRegistry, Claimed, Host, JobTask, Task
from onceward.work.claim import claim, claim_lanes, new_lease, release
from onceward.work.commit_sharing import Member, Sharing
from onceward.work.end_hooks import register_end_hooks
from onceward.work.executor import Executor
from onceward.work.external import register_external_tasks
from onceward.work.leases import Leases
from onceward.work.processes import HandlerProcesses
from onceward.work.settle import Acknowledger
from onceward.work.slot_control import LoneSlot
from onceward.work.threads import HandlerThreads

MOST_ROUNDS = 1000

QUEUES = (
    "select distinct queue from onceward.work where queue not in ('external', 'unhandled')"
    " and not starts_with(queue, 'external:')"
)

P = ParamSpec("P")
R = TypeVar("R")


async def drain(engine: Engine, *queues: str, most: int = 10_000) -> int:
    """Run all due work, and the work that becomes due by it, until nothing is due. Return how many items ran."""
    worker = secrets.randbits(62) + 1
    leases = Leases()
    acks = Acknowledger(engine.db, worker, leases, kinds=engine.registry.kinds)
    processes = HandlerProcesses()
    executor = Executor(
        engine.db,
        worker=worker,
        acks=acks,
        leases=leases,
        open_tx=engine.open_tx,
        hooks=engine.registry.end_hooks,
        processes=processes,
        sharing=Sharing(learns=False),
    )
    try:
        return await _run_due(engine, executor, acks, worker, queues, most)
    finally:
        await processes.close()


async def _run_due(
    engine: Engine, executor: Executor, acks: Acknowledger, worker: int, queues: Sequence[str], most: int
) -> int:
    if engine.registry.end_hooks:
        await register_end_hooks(engine.db, engine.registry)
    if engine.registry.external:
        await register_external_tasks(engine.db, engine.registry)
    ran = 0
    for _ in range(MOST_ROUNDS):
        ran_now = 0
        for queue in queues or [row["queue"] for row in await engine.db.fetch(QUEUES)]:
            taken = await _take(engine, queue, sorted(engine.registry.tasks), worker)
            line = Line(engine.registry, _batches(engine.registry, taken))
            while (batch := line.next()) is not None:
                if batch[0].is_blocked:  # the work before it in its ordered lane has not succeeded
                    async with engine.db.acquire() as conn:
                        await release(conn, batch)
                    continue
                task = engine.registry.tasks[batch[0].task]
                token = running.set(batch[0])
                try:
                    if task.batch > 1:
                        await executor.batches.run(task, batch)
                    else:
                        await executor.run(task, batch[0], line)
                finally:
                    running.reset(token)
            ran_now += len(taken)
        await acks.close()
        ran += ran_now
        if ran_now == 0:
            await engine.db.execute("delete from onceward.claims where worker = $1", worker)
            return ran
        if ran > most:
            raise AssertionError(f"more than {most} items of work ran: does a job enqueue itself?")
    raise AssertionError(f"work was still due after {MOST_ROUNDS} rounds: does a job enqueue itself?")


class Line(LoneSlot):
    """The slot of a drain: work that follows may share the transaction of the work before it, as in a worker with a
    backlog."""

    def __init__(self, registry: AppRegistry, batches: list[list[Claimed]]) -> None:
        self._registry = registry
        self._batches = deque(batches)
        self._last: Claimed | None = None

    def next(self) -> list[Claimed] | None:
        return self._batches.popleft() if self._batches else None

    def joining(self, fits: Callable[[Task, Claimed], bool]) -> Member | None:
        if not self._batches:
            return None
        work = self._batches[0][0]
        task = self._registry.tasks[work.task]
        if (work.is_blocked and work.after is not self._last) or not fits(task, work):
            return None
        self._batches.popleft()
        return Member(task, work)

    def turns_to(self, work: Claimed, *, follows_others: bool) -> None:
        self._last = work
        running.set(work)


def _batches(registry: AppRegistry, taken: list[Claimed]) -> list[list[Claimed]]:
    """Group the jobs of a batch handler by organization, as a worker does."""
    batches: list[list[Claimed]] = []
    open_: dict[tuple[str, UUID | None], list[Claimed]] = {}
    for work in taken:
        size = registry.tasks[work.task].batch
        batch = open_.get((work.task, work.organization))
        if size > 1 and work.bundle is None and batch is not None and len(batch) < size:
            batch.append(work)
            continue
        batches.append([work])
        if size > 1 and work.bundle is None:
            open_[work.task, work.organization] = batches[-1]
    return batches


async def _take(engine: Engine, queue: str, names: list[str], worker: int) -> list[Claimed]:
    async with engine.db.acquire() as conn:
        taken = await claim(conn, queue=queue, tasks=names, most=50, lease=new_lease(), worker=worker, suspect=True)
        work = taken.work
        if not work:
            lanes = await claim_lanes(
                conn,
                queue=queue,
                tasks=names,
                most=50,
                lease=new_lease(),
                worker=worker,
                suspect=True,
                together=[name for name in names if engine.registry.tasks[name].shares],
            )
            work = lanes.work
        for each in work:
            each.db = engine.db
        await load_bodies(engine.registry, conn, work)
    return work


async def load_bodies(registry: AppRegistry, conn: Any, work: list[Claimed]) -> None:
    """Load the bodies of claimed work other than jobs, as a worker does after a claim."""
    for kind in {each.kind for each in work} - {"job"}:
        group = [each for each in work if each.kind == kind]
        bodies = await registry.kinds[kind].load(conn, [each.id for each in group])
        for each in group:
            each.body = bodies.get(each.id)


async def perform(engine: Engine, job: JobTask[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
    """Enqueue one job, run it once and return its result, or raise its error."""
    enqueued = await engine.enqueue(job, *args, **kwargs)
    row = await engine.db.fetchrow(
        "update onceward.work set lease = $2 where id = $1 returning attempts, organization_id",
        enqueued.id,
        new_lease(),
    )
    stored = await engine.db.fetchrow("select * from onceward.jobs where id = $1", enqueued.id)
    assert row is not None
    assert stored is not None
    work = Claimed(0, enqueued.id, "job", job.name, row["organization_id"], row["attempts"], args=stored["args"])
    work.db = engine.db
    work.open_tx = engine.open_tx
    work.host = Host(
        engine.db, 0, engine.open_tx, engine.waker.wake, threads=HandlerThreads(), processes=HandlerProcesses()
    )
    try:
        if not job.task.transactional:
            return cast(R, await job.task.run(work, None))
        async with engine.transaction(organization=work.organization, cause=work.cause) as tx:
            return cast(R, await job.task.run(work, tx))
    finally:
        await work.host.processes.close()
        await engine.db.execute("delete from onceward.work where id = $1", enqueued.id)
