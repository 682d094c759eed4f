"""Measure how fast workers finish due jobs: in one process or two, with history, a backlog, a blocked lane,
transactions.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import subprocess
import sys
from collections.abc import Mapping, Sequence

from benchmarks.measure import (
    UNSHARED,
    UNSHARED_ENVIRONMENT,
    BenchFailed,
    Measurement,
    compare,
    is_unfair,
    is_unshared,
    pgbench,
)
from benchmarks.peer import peer
from benchmarks.work_rig import (
    ARGUMENT,
    HOT,
    PEERS,
    Case,
    Rig,
    against,
    app,
    noop,
    update_hot,
    write,
    write_together,
)
from onceward import Engine
from onceward.cli.session import spare_collector
from onceward.db import Database
from onceward.work import BoundJob, JobTask, Worker, WorkerOptions
from onceward.work.metrics import count

PGBENCH_SAME = f"""\\set id :first + :client_id * :each + :n
\\set n :n + 1
begin;
insert into onceward_bench.sink (body) values ('{ARGUMENT}');
call onceward.succeed_job(:id, 7, 1, now(), null);
commit;
"""
"""A handler's transaction: its own statement and the acknowledgement."""
PGBENCH_INSERTS = f"""begin;
insert into onceward_bench.sink (body) values ('{ARGUMENT}');
insert into onceward_bench.queue (body) values ('done');
commit;
"""
PGBENCH_UPDATE = """\\set id random(0, 99)
begin;
select n from onceward_bench.hot where id = :id for update;
update onceward_bench.hot set n = n + 1 where id = :id;
insert into onceward_bench.queue (body) values ('done');
commit;
"""
ORDERED_LANES = 1000
CLAIMED = """
with rows as (select $1::bigint + n as id from generate_series(0, $2::int - 1) n), bodies as (
    insert into onceward.jobs (id, task, args) select id, 'write', '{}' from rows
)
insert into onceward.work (id, kind, task, queue, sort_at, lease, claimed_at)
select id, 'job', 'write', 'tx', now(), 7, now() from rows
"""


async def drain_1(rig: Rig) -> list[Measurement]:
    return await _drain(rig, "drain-1", processes=1)


async def drain_2(rig: Rig) -> list[Measurement]:
    return await _drain(rig, "drain-2", processes=2)


async def _drain(rig: Rig, case: str, *, processes: int) -> list[Measurement]:
    """Drain as many jobs as each peer, in turns with the peers."""
    count = rig.size.pick(200_000, 60_000, 200)

    async def ours() -> float:
        await rig.engine.enqueue_many([noop.call(body=ARGUMENT)] * count)
        await rig.db.execute("vacuum analyze onceward.work")
        return await _timed_drain(rig, count, processes=processes)

    values: list[float] = []
    theirs: dict[str, list[float]] = {name: [] for name in PEERS}
    for _ in range(rig.size.turns()):
        values.append(await ours())
        for name in PEERS:
            value = await peer(name, "drain", url=rig.url, count=count, processes=processes)
            theirs[name] += [value] if value else []
    results = [against(case, values, name, other) for name, other in theirs.items() if len(other) == len(values)]
    return results or [Measurement("work", case, statistics.median(values), "jobs/s", None, None, None, 0.0)]


async def _timed_drain(
    rig: Rig, count: int, *, processes: int = 1, queue: str = "default", unshared: bool = False
) -> float:
    """Return the rate from the first to the last completion, as PostgreSQL recorded them."""
    before = await rig.db.fetchval("select clock_timestamp()")
    environment = UNSHARED_ENVIRONMENT if unshared else None
    children = await asyncio.gather(*(start_worker(rig.url, queue, environment=environment) for _ in range(processes)))
    try:
        for child in children:
            assert child.stdin is not None
            child.stdin.write(b"go\n")
        await rig.drained()
    finally:
        for child in children:
            child.kill()
            await child.wait()
    row = await rig.db.fetchrow(
        "select min(started_at) as first, max(finished_at) as last from onceward.attempts where finished_at >= $1",
        before,
    )
    assert row is not None
    return count / (row["last"] - row["first"]).total_seconds()


async def start_worker(
    url: str, queue: str = "default", *, environment: Mapping[str, str] | None = None
) -> asyncio.subprocess.Process:
    """Start a worker that connects and waits for the start signal, like the peers' workers: the start is not
    measured.
    """
    child = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "benchmarks.work_drain", url, queue),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, **(environment or {})},
    )
    assert child.stdout is not None
    while (line := await child.stdout.readline()) != b"ready\n":
        if not line:
            raise BenchFailed("a worker process did not start")
    return child


async def drain_history(rig: Rig) -> list[Measurement]:
    """Drain with as many finished jobs in the tables as a busy month leaves; the baseline has none."""
    finished = rig.size.pick(10_000_000, 1_000_000, 200)
    count = rig.size.pick(100_000, 100_000, 200)

    async def ours() -> float:
        await rig.engine.enqueue_many([noop.call(body=ARGUMENT)] * count)
        await rig.db.execute("vacuum analyze onceward.work")
        return await _timed_drain(rig, count)

    empty = [await ours() for _ in range(rig.size.turns())]
    await _fill_history(rig, finished)
    full = [await ours() for _ in range(rig.size.turns())]
    return [against("drain-history", full, "our own drain-1 without history", empty)]


async def _fill_history(rig: Rig, count: int) -> None:
    for start in range(0, count, 500_000):
        await rig.db.execute(
            f"""
            with fresh as materialized (
                select nextval('onceward.ids') as id from generate_series(1, {min(500_000, count - start)})
            ), bodies as (
                insert into onceward.jobs (id, task, args)
                select id, 'noop', jsonb_build_object('body', repeat('x', 138)) from fresh
            )
            insert into onceward.attempts (work_id, number, kind, task, outcome, started_at)
            select id, 1, 'job', 'noop', 'success', now() from fresh
            """
        )
    await rig.db.execute("vacuum analyze onceward.attempts")
    await rig.db.execute("vacuum analyze onceward.jobs")
    await rig.db.execute("checkpoint")


async def drain_pinned(rig: Rig) -> list[Measurement]:
    """Drain while another session holds a snapshot, so that vacuum cannot remove dead rows."""
    churn = rig.size.pick(2_000_000, 200_000, 200)
    count = rig.size.pick(50_000, 50_000, 200)

    async def one(amount: int) -> float:
        await rig.engine.enqueue_many([noop.call(body=ARGUMENT)] * amount)
        return await _timed_drain(rig, amount)

    free = [await one(count) for _ in range(rig.size.turns())]
    pin = await rig.db.connect()
    await pin.execute("set idle_in_transaction_session_timeout = 0")
    await pin.execute("begin isolation level repeatable read; select count(*) from onceward.jobs")
    for start in range(0, churn, 100_000):
        await one(min(100_000, churn - start))
    pinned = [await one(count) for _ in range(rig.size.turns())]
    await pin.execute("rollback")
    await pin.close()
    return [against("drain-pinned", pinned, "our own drain-1 with nothing pinned", free)]


async def drain_backlog(rig: Rig) -> list[Measurement]:
    """Drain a million due jobs; the baseline drains as many as the other cases."""
    few = rig.size.pick(100_000, 100_000, 100)
    many = rig.size.pick(1_000_000, 300_000, 300)

    async def one(count: int) -> float:
        await rig.clear()
        await rig.engine.enqueue_many([noop.call(body=ARGUMENT)] * count)
        await rig.db.execute("vacuum analyze onceward.work")
        return await _timed_drain(rig, count)

    turns = [(await one(few), await one(many)) for _ in range(rig.size.turns(3, 1))]
    return [against("drain-backlog", [b for _, b in turns], "our own drain-1 of 100,000", [a for a, _ in turns])]


async def drain_blocked(rig: Rig) -> list[Measurement]:
    """Drain lanes while 100,000 older jobs wait behind the head of another lane; the baseline has no such lane."""
    count, lanes = rig.size.pick(20_000, 20_000, 100), 50

    async def one() -> float:
        for n in range(lanes):
            order = noop.in_lane(f"free-{n}", limit=100)
            await rig.engine.enqueue_many([order.call(body=ARGUMENT)] * (count // lanes))
        await rig.db.execute("vacuum analyze onceward.work")
        return await _timed_drain(rig, count)

    alone: list[float] = []
    beside: list[float] = []
    for _ in range(rig.size.turns(5, 3)):
        await rig.clear()
        alone.append(await one())
        await rig.engine.enqueue(noop.in_order("blocked").schedule_in(hours=1), body=ARGUMENT)
        blocked = noop.in_order("blocked").call(body=ARGUMENT)
        await rig.engine.enqueue_many([blocked] * rig.size.pick(100_000, 100_000, 100))
        beside.append(await one())
    return [against("drain-blocked", beside, "our own without the blocked lane", alone)]


async def drain_tx(rig: Rig) -> list[Measurement]:
    return await _drain_tx(rig, "drain-tx", write, rig.size.pick(30_000, 10_000, 160))


async def drain_tx_batch(rig: Rig) -> list[Measurement]:
    return await _drain_tx(rig, "drain-tx-batch", write_together, rig.size.pick(100_000, 30_000, 160))


async def _drain_tx(rig: Rig, case: str, job: JobTask[..., None], count: int) -> list[Measurement]:
    async def ours() -> float:
        await rig.engine.enqueue_many([job.call(body=ARGUMENT)] * count)
        await rig.db.execute("vacuum analyze onceward.work")
        before = await rig.db.fetchval("select clock_timestamp()")
        async with rig.worker(concurrency=16, queues=("tx",)):
            await rig.drained()
        row = await rig.db.fetchrow(
            "select min(started_at) as first, max(finished_at) as last from onceward.attempts where finished_at >= $1",
            before,
        )
        assert row is not None
        return count / (row["last"] - row["first"]).total_seconds()

    clients = 16

    async def same() -> float:
        first: int = await rig.db.fetchval("select max(id) + 1000000 from onceward.jobs")
        await rig.db.execute(CLAIMED, first, count)
        await rig.db.execute("vacuum analyze onceward.work")
        each = count // clients
        variables = {"first": first, "each": each, "n": 0}
        return await pgbench(rig.url, PGBENCH_SAME, clients=clients, transactions=each, variables=variables)

    async def inserts() -> float:
        return await pgbench(rig.url, PGBENCH_INSERTS, clients=clients, for_s=rig.size.pick(4.0, 4.0, 1.0))

    return [
        await compare(
            "work",
            case,
            ours,
            unit="jobs/s",
            baseline=f"pgbench, {what}, 16 clients",
            theirs=theirs,
            turns=rig.size.turns(),
        )
        for what, theirs in (("the same two statements", same), ("two plain inserts", inserts))
    ]


async def drain_row(rig: Rig) -> list[Measurement]:
    """Drain jobs that write one row each: the row and the success in one commit. A peer's row has a commit of its
    own.
    """
    return await _drain_writing(rig, "drain-row", "insert", [write.call(body=ARGUMENT)], PGBENCH_INSERTS)


async def drain_row_2(rig: Rig) -> list[Measurement]:
    return await _drain_writing(rig, "drain-row-2", "insert", [write.call(body=ARGUMENT)], None, processes=2)


async def drain_row_update(rig: Rig) -> list[Measurement]:
    """Drain jobs that lock and update one of a hundred rows each."""
    calls = [update_hot.call(row=row * 37 % HOT) for row in range(HOT)]
    return await _drain_writing(rig, "drain-row-update", "update", calls, PGBENCH_UPDATE)


async def drain_ordered(rig: Rig) -> list[Measurement]:
    """Drain a thousand ordered lanes of jobs that write one row each."""
    calls = [write.in_order(f"lane-{lane}").call(body=ARGUMENT) for lane in range(ORDERED_LANES)]
    return await _drain_writing(rig, "drain-ordered", "ordered", calls, None, peers=("graphile-worker", "pg-boss"))


async def _drain_writing(
    rig: Rig,
    case: str,
    writes: str,
    calls: Sequence[BoundJob[None]],
    script: str | None,
    *,
    processes: int = 1,
    peers: Sequence[str] = ("graphile-worker", "pg-boss", "pgqueuer"),
) -> list[Measurement]:
    """Drain in turns with the peers, whose handlers write the same row (at least once), and with a pgbench script."""
    count = rig.size.pick(20_000, 10_000, 200)
    values: list[float] = []
    theirs: dict[str, list[float]] = {}

    async def ours(*, unshared: bool) -> float:
        await rig.clear()
        await rig.engine.enqueue_many([calls[n % len(calls)] for n in range(count)])
        await rig.db.execute("vacuum analyze onceward.work")
        return await _timed_drain(rig, count, processes=processes, queue="tx", unshared=unshared)

    for _ in range(rig.size.turns()):
        values.append(await ours(unshared=False))
        theirs.setdefault(UNSHARED, []).append(await ours(unshared=True))
        for name in peers:
            value = await peer(name, "drain", url=rig.url, count=count, processes=processes, writes=writes)
            if value:
                theirs.setdefault(f"{name} (at least once)", []).append(value)
        if script is not None:
            rate = await pgbench(rig.url, script, clients=16, for_s=rig.size.pick(4.0, 4.0, 1.0))
            theirs.setdefault("pgbench, one transaction each, 16 clients", []).append(rate)
    return [against(case, values, name, other) for name, other in theirs.items() if len(other) == len(values)]


DRAINS: dict[str, Case] = {
    "drain-1": drain_1,
    "drain-2": drain_2,
    "drain-history": drain_history,
    "drain-pinned": drain_pinned,
    "drain-backlog": drain_backlog,
    "drain-blocked": drain_blocked,
    "drain-tx": drain_tx,
    "drain-tx-batch": drain_tx_batch,
    "drain-row": drain_row,
    "drain-row-2": drain_row_2,
    "drain-row-update": drain_row_update,
    "drain-ordered": drain_ordered,
}


async def _work(url: str, queue: str) -> None:
    """One worker process of a drain."""
    db = await Database.open(url, min_size=4, max_size=10)
    engine = Engine(db, app.registry)
    await engine.start()
    unshared = (queue,) if is_unshared() else ()
    options = WorkerOptions(only_queues=(queue,), unshared_queues=unshared, fair=not is_unfair())
    worker = Worker(db, app.registry, engine.waker, options=options, open_tx=engine.open_tx, count=count)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    await asyncio.to_thread(sys.stdin.readline)
    spare_collector()
    await worker.start()
    await asyncio.Event().wait()


if __name__ == "__main__":
    import uvloop

    uvloop.run(_work(sys.argv[1], sys.argv[2]))
