"""Compare the work engine with its peers and with PostgreSQL: shipped schema, fsync on, history kept, 150-byte arguments."""

from __future__ import annotations

import asyncio
import statistics
import subprocess
import sys
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from benchmarks.measure import BenchFailed, Measurement, Size, compare, pgbench
from benchmarks.peer import peer
from onceward import Engine, Job, Onceward, Tx
from onceward.cli.session import spare_collector
from onceward.db import Database, migrate
from onceward.runtime import FEATURES
from onceward.work import JobTask, Worker, WorkerOptions
from onceward.work.metrics import count

ARGUMENT = "x" * 138  # with its name and quotes, 150 bytes of JSON
CALLERS = 32
PEERS = ("graphile-worker", "pgqueuer")
ASKED_EVERY_S = 0.25
"""How often to check whether a drain is over. The result uses times that PostgreSQL recorded, so seldom is enough."""

app = Onceward("bench")


@app.job
async def noop(*, body: str) -> None: ...


@app.job(queue="tx")
async def write(tx: Tx, *, body: str) -> None:
    await tx.execute("insert into onceward_bench.sink (body) values ($1)", body)


@app.job(queue="tx", batch=25)
async def write_together(jobs: list[Job], tx: Tx) -> None:
    await tx.execute(
        "insert into onceward_bench.sink (body) select unnest($1::text[])", [job.args["body"] for job in jobs]
    )


STARTED: list[float] = []


@app.job(queue="latency")
async def note_start(*, body: str) -> None:
    STARTED.append(time.perf_counter())


BASELINE = """
create schema if not exists onceward_bench;
grant usage on schema onceward_bench to public;
create table if not exists onceward_bench.sink (id bigint generated always as identity primary key, body text);
grant all on onceward_bench.sink to public;
create table if not exists onceward_bench.queue (id bigint generated always as identity primary key, body text);
create table if not exists onceward_bench.bare (body jsonb);
"""

PGBENCH_INSERT = f"insert into onceward_bench.queue (body) values ('{ARGUMENT}');\n"
PGBENCH_SAME = f"""\\set id :first + :client_id * :each + :n
\\set n :n + 1
begin;
insert into onceward_bench.sink (body) values ('{ARGUMENT}');
select onceward.succeed_or_fail(:id, 7, 1, now(), null);
commit;
"""
"""A handler's transaction: its own statement and the acknowledgement."""
PGBENCH_INSERTS = f"""begin;
insert into onceward_bench.sink (body) values ('{ARGUMENT}');
insert into onceward_bench.queue (body) values ('done');
commit;
"""
CLAIMED = """
with rows as (select $1::bigint + n as id from generate_series(0, $2::int - 1) n), bodies as (
    insert into onceward.jobs (id, task, args) select id, 'write', '{}' from rows
)
insert into onceward.work (id, kind, task, queue, sort_at, lease, claimed_at)
select id, 'job', 'write', 'tx', now(), 7, now() from rows
"""

Case = Callable[["Rig"], Awaitable[list[Measurement]]]


class Rig:
    """An engine on the benchmark's database."""

    def __init__(self, db: Database, url: str, size: Size) -> None:
        self.db = db
        self.url = url
        self.size = size
        self.engine = Engine(db, app.registry)

    async def clear(self, *, history: bool = False) -> None:
        tables = "onceward.work, onceward.claims, onceward_bench.sink, onceward_bench.queue, onceward_bench.bare"
        await self.db.execute(f"truncate {tables}" + (", onceward.jobs, onceward.attempts" if not history else ""))
        await self.db.execute("vacuum analyze onceward.work")
        await self.db.execute("checkpoint")

    @asynccontextmanager
    async def worker(self, *, concurrency: int = 64, queues: tuple[str, ...] = ("default",)) -> AsyncGenerator[Worker]:
        options = WorkerOptions(concurrency=concurrency, only_queues=queues)
        worker = Worker(
            self.db, self.engine.registry, self.engine.waker, options=options, open_tx=self.engine.open_tx, count=count
        )
        await worker.start()
        try:
            yield worker
        finally:
            await worker.stop()

    async def drained(self) -> None:
        """Return whether all work is done, except in the lane `blocked`."""
        waiting = (
            "select exists (select from onceward.work where dead_reason is null and lane is distinct from 'blocked')"
        )
        while await self.db.fetchval(waiting):
            await asyncio.sleep(ASKED_EVERY_S)


async def run(size: Size, url: str, only: str | None = None) -> list[Measurement]:
    """Run all cases, or one."""
    db = await Database.open(url, min_size=10, max_size=20)
    async with db.acquire() as conn:
        await migrate(conn, FEATURES.migrations)
        await conn.execute(BASELINE)
    rig = Rig(db, url, size)
    await rig.engine.start()
    spare_collector()  # as `onceward worker` does
    results: list[Measurement] = []
    try:
        for name, case in CASES.items():
            if only is None or only == name:
                await rig.clear()
                results += await case(rig)
    finally:
        await rig.engine.stop()
        await db.close()
    return results


async def enqueue(rig: Rig) -> list[Measurement]:
    """Measure 32 callers that enqueue one job at a time; each call returns after the commit of its job."""
    per_caller = rig.size.pick(1000, 300, 3)

    async def ours() -> float:
        async def caller() -> None:
            for _ in range(per_caller):
                await rig.engine.enqueue(noop, body=ARGUMENT)

        started = time.perf_counter()
        await asyncio.gather(*(caller() for _ in range(CALLERS)))
        return per_caller * CALLERS / (time.perf_counter() - started)

    async def limit() -> float:
        return await pgbench(rig.url, PGBENCH_INSERT, clients=CALLERS, for_s=rig.size.pick(3.0, 3.0, 1.0))

    measured = await compare(
        "work",
        "enqueue",
        ours,
        unit="jobs/s",
        baseline="pgbench single-row insert, 32 clients",
        theirs=limit,
        turns=rig.size.turns(),
    )
    return [measured, *await _peers(rig, "enqueue", measured, rig.size.pick(3000, 3000, 100))]


async def bulk(rig: Rig) -> list[Measurement]:
    count = rig.size.pick(200_000, 50_000, 2000)

    async def ours() -> float:
        started = time.perf_counter()
        await rig.engine.enqueue_many([noop.call(body=ARGUMENT) for _ in range(count)])
        return count / (time.perf_counter() - started)

    async def bare() -> float:
        bodies = ['{"body":"' + ARGUMENT + '"}'] * 2000
        started = time.perf_counter()
        async with rig.db.acquire() as conn, conn.transaction():
            for _ in range(count // 2000):
                await conn.execute(
                    "insert into onceward_bench.bare (body) select b::jsonb from unnest($1::text[]) b", bodies
                )
        return count / (time.perf_counter() - started)

    measured = await compare(
        "work",
        "bulk",
        ours,
        unit="jobs/s",
        baseline="asyncpg unnest into a bare table",
        theirs=bare,
        turns=rig.size.turns(),
    )
    return [measured, *await _peers(rig, "bulk", measured, count)]


async def drain_1(rig: Rig) -> list[Measurement]:
    return await _drain(rig, "drain-1", processes=1)


async def drain_2(rig: Rig) -> list[Measurement]:
    return await _drain(rig, "drain-2", processes=2)


async def _drain(rig: Rig, case: str, *, processes: int) -> list[Measurement]:
    count = rig.size.pick(300_000, 100_000, 200)

    async def ours() -> float:
        await rig.engine.enqueue_many([noop.call(body=ARGUMENT)] * count)
        await rig.db.execute("vacuum analyze onceward.work")
        return await _timed_drain(rig, count, processes=processes)

    values: list[float] = []
    theirs: dict[str, list[float]] = {name: [] for name in PEERS}
    for _ in range(rig.size.turns()):
        values.append(await ours())
        for name in PEERS:
            their_count = rig.size.pick(100_000, 30_000, 100)
            value = await peer(name, "drain", url=rig.url, count=their_count, processes=processes)
            theirs[name] += [value] if value else []
    results = [_against(case, values, name, other) for name, other in theirs.items() if len(other) == len(values)]
    return results or [Measurement("work", case, statistics.median(values), "jobs/s", None, None, None, 0.0)]


async def _timed_drain(rig: Rig, count: int, *, processes: int = 1) -> float:
    """Return the rate from the first to the last completion, as PostgreSQL recorded them."""
    before = await rig.db.fetchval("select clock_timestamp()")
    children = await asyncio.gather(*(_start_process(rig.url) for _ in range(processes)))
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


async def _start_process(url: str) -> asyncio.subprocess.Process:
    """Start a worker that connects and waits for the start signal, like the peers' workers: the start is not measured."""
    child = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "benchmarks.work", url), stdin=subprocess.PIPE, stdout=subprocess.PIPE
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
    return [_against("drain-history", full, "our own drain-1 without history", empty)]


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
    return [_against("drain-pinned", pinned, "our own drain-1 with nothing pinned", free)]


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
    return [_against("drain-backlog", [b for _, b in turns], "our own drain-1 of 100,000", [a for a, _ in turns])]


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
        await rig.engine.enqueue_many(
            [noop.in_order("blocked").call(body=ARGUMENT)] * rig.size.pick(100_000, 100_000, 100)
        )
        beside.append(await one())
    return [_against("drain-blocked", beside, "our own without the blocked lane", alone)]


async def drain_tx(rig: Rig) -> list[Measurement]:
    return await _drain_tx(rig, "drain-tx", write, rig.size.pick(30_000, 10_000, 160))


async def drain_tx_batch(rig: Rig) -> list[Measurement]:
    return await _drain_tx(rig, "drain-tx-batch", write_together, rig.size.pick(100_000, 30_000, 160))


async def _drain_tx(rig: Rig, case: str, job: JobTask[..., Any], count: int) -> list[Measurement]:
    async def ours() -> float:
        await rig.engine.enqueue_many([job.call(body=ARGUMENT)] * count)
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


async def latency(rig: Rig) -> list[Measurement]:
    """Measure the time from the call of enqueue to the start of the handler, with an idle worker in this process."""
    count = rig.size.pick(1000, 200, 10)
    async with rig.worker(queues=("latency",)):
        alone = await _latencies(rig, count, lambda: rig.engine.enqueue(note_start, body=ARGUMENT))

        async def in_transaction() -> None:
            async with rig.engine.transaction() as tx:
                await tx.enqueue(note_start, body=ARGUMENT)

        inside = await _latencies(rig, count, in_transaction)
    async with rig.worker(queues=("latency", "default")):
        await rig.engine.enqueue_many([noop.call(body=ARGUMENT)] * rig.size.pick(300_000, 100_000, 200))
        boosted = await _latencies(
            rig, rig.size.pick(50, 50, 5), lambda: rig.engine.enqueue(note_start.head_start(60), body=ARGUMENT)
        )
    theirs = await peer("pgqueuer", "latency", url=rig.url, count=rig.size.pick(200, 200, 20))
    name = None if theirs is None else "PgQueuer p50"

    def point(case: str, value: float) -> Measurement:
        ratio = None if theirs is None else theirs / value
        return Measurement("work", case, value, "ms", name, theirs, ratio, 0.0)

    return [
        point("latency-p50", statistics.median(alone)),
        point("latency-p99", sorted(alone)[int(len(alone) * 0.99)]),
        point("latency-tx-enqueue", statistics.median(inside)),
        point("latency-boosted", statistics.median(boosted)),
    ]


async def _latencies(rig: Rig, count: int, call: Callable[[], Awaitable[object]]) -> list[float]:
    samples: list[float] = []
    for _ in range(count):
        STARTED.clear()
        begun = time.perf_counter()
        await call()
        while not STARTED:
            await asyncio.sleep(0.0002)
        samples.append((STARTED[0] - begun) * 1000)
        await asyncio.sleep(0.004)
    return samples


def _against(case: str, ours: list[float], baseline: str, theirs: list[float]) -> Measurement:
    value, other = statistics.median(ours), statistics.median(theirs)
    ratio = statistics.median(mine / its for mine, its in zip(ours, theirs, strict=True))
    return Measurement("work", case, value, "jobs/s", baseline, other, ratio, (max(ours) - min(ours)) / value)


async def _peers(rig: Rig, case: str, ours: Measurement, count: int, *, processes: int = 1) -> list[Measurement]:
    """Run the same case on each installed peer (`make bench-peers`)."""
    results: list[Measurement] = []
    for name in PEERS:
        value = await peer(name, case, url=rig.url, count=count, processes=processes)
        if value:
            results.append(
                Measurement("work", ours.case, ours.value, ours.unit, name, value, ours.value / value, ours.spread)
            )
    return results


CASES: dict[str, Case] = {
    "enqueue": enqueue,
    "bulk": bulk,
    "drain-1": drain_1,
    "drain-2": drain_2,
    "drain-history": drain_history,
    "drain-pinned": drain_pinned,
    "drain-backlog": drain_backlog,
    "drain-blocked": drain_blocked,
    "drain-tx": drain_tx,
    "drain-tx-batch": drain_tx_batch,
    "latency": latency,
}


async def _work(url: str) -> None:
    """One worker process of a drain."""
    db = await Database.open(url, min_size=4, max_size=10)
    engine = Engine(db, app.registry)
    await engine.start()
    options = WorkerOptions(only_queues=("default",))
    worker = Worker(db, app.registry, engine.waker, options=options, open_tx=engine.open_tx, count=count)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    await asyncio.to_thread(sys.stdin.readline)
    spare_collector()
    await worker.start()
    await asyncio.Event().wait()


if __name__ == "__main__":
    import uvloop

    uvloop.run(_work(sys.argv[1]))
