"""Measure live queries: latency, fan-out, memory and idle cost; the baseline is a bare WebSocket broadcast."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from statistics import median, quantiles

import orjson
import psutil

from benchmarks.live_server import ORGANIZATION
from benchmarks.measure import BenchFailed, Measurement, Size, compare
from benchmarks.sockets import Crowd, Listener, allow_files
from onceward.db import Database, migrate
from onceward.engine import Engine
from onceward.runtime import FEATURES
from onceward.work import AppRegistry

CASES = ("fanout-10k", "write-to-client-p50", "write-to-client-p99", "memory-idle", "idle-queries")
SUBSCRIBERS = 10_000
GROUPS = 1_000
IDLE_QUERIES = 5_000
PER_CONNECTION = 100
LONG_S = 5.0
BASELINE = "bare websocket broadcast"

SCHEMA = """
drop schema if exists onceward_bench cascade;
create schema onceward_bench;
create table onceward_bench.stock (
    item int primary key, organization_id uuid not null, left_over int not null, at float8 not null default 0);
select onceward.protect('onceward_bench.stock');
select onceward.watch('onceward_bench.stock', key => 'item');
grant usage on schema onceward_bench to onceward_app;
"""

PAYLOAD = b'{"bare":1,"padding":"%s"}' % (b"x" * 120)
"""Has the length of one of our frames."""
WRITES_A_TURN = 3
HELLO = b'{"type":"hello"}'


def subscribe(id: int, item: int) -> bytes:
    return orjson.dumps({"type": "subscribe", "id": id, "query": "stock", "arguments": {"item": item}})


@dataclass
class Server:
    """A server process and its port."""

    process: asyncio.subprocess.Process
    port: int

    @property
    def memory(self) -> int:
        """Return the private memory of the process in bytes."""
        return psutil.Process(self.process.pid).memory_full_info().uss

    @property
    def cpu_s(self) -> float:
        """Return the CPU time of the process so far, in seconds."""
        times = psutil.Process(self.process.pid).cpu_times()
        return times.user + times.system


@asynccontextmanager
async def serving(kind: str, url: str) -> AsyncGenerator[Server]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "benchmarks.live_server", kind, url, stdout=asyncio.subprocess.PIPE
    )
    try:
        if process.stdout is None:
            raise BenchFailed("the server has no output")
        async for line in process.stdout:
            if line.strip().isdigit():
                yield Server(process, int(line))
                return
        raise BenchFailed("the server ended at its start")
    finally:
        process.kill()
        await process.wait()


async def run(size: Size, url: str, only: str | None = None) -> list[Measurement]:
    """Run all cases, or one of them."""
    cases = CASES if only is None else tuple(case for case in CASES if case == only)
    allow_files(SUBSCRIBERS + 1000)
    db = await Database.open(url, min_size=1, max_size=8)
    engine = Engine(db, AppRegistry())
    engine.wakes_live = True
    results: list[Measurement] = []
    try:
        async with db.acquire() as conn:
            await migrate(conn, FEATURES.migrations)
            await conn.execute(SCHEMA)
            await conn.execute(
                "insert into onceward_bench.stock select n, $1, 0 from generate_series(0, $2) n",
                ORGANIZATION,
                IDLE_QUERIES,
            )
        await engine.start()
        async with serving("ours", url) as ours, serving("bare", url) as bare:
            if "memory-idle" in cases:
                results.append(await memory_idle(ours, bare, clients=size.pick(5_000, 1_000, 20)))
            if "idle-queries" in cases:
                results += await idle_queries(db, ours, size)
            if "fanout-10k" in cases:
                results.append(
                    await fanout(
                        engine, ours, bare, turns=size.turns(5, 2), subscribers=size.pick(SUBSCRIBERS, SUBSCRIBERS, 20)
                    )
                )
            if "write-to-client-p50" in cases or "write-to-client-p99" in cases:
                measured = await write_to_client(engine, ours, bare, writes=size.pick(1_000, 200, 10))
                results += [each for each in measured if each.case in cases]
    finally:
        await engine.stop()
        await db.execute("drop schema if exists onceward_bench cascade")
        await db.close()
    return results


async def write(engine: Engine, item: int) -> None:
    """Write as a handler or an API route would."""
    async with engine.transaction(organization=ORGANIZATION) as tx:
        await tx.execute("update onceward_bench.stock set left_over = left_over + 1 where item = $1", item)


class Rounds:
    """Counts the clients that received a write, and notes when the last one did."""

    def __init__(self, count: int, mark: bytes) -> None:
        self.count = count
        self.mark = mark
        self.left = 0
        self.done = asyncio.Event()
        self.at = 0.0

    def begin(self) -> float:
        self.left = self.count
        self.done.clear()
        return time.perf_counter()

    def heard(self, _: Listener, text: bytes) -> None:
        if self.mark in text:
            self.left -= 1
            if not self.left:
                self.at = time.perf_counter()
                self.done.set()

    async def end(self, began: float) -> float:
        async with asyncio.timeout(60):
            await self.done.wait()
        return (self.at - began) * 1000


async def fanout(
    engine: Engine, ours: Server, bare: Server, *, turns: int, subscribers: int = SUBSCRIBERS
) -> Measurement:
    """Measure the time in ms from the write until the last of 10,000 subscribers has it."""

    async def our_turn() -> float:
        crowd, rounds = Crowd(), Rounds(subscribers, b'"hash"')
        began = rounds.begin()
        await crowd.gather(subscribers, ours.port, "/live", [HELLO, subscribe(1, 0)], rounds.heard)
        await rounds.end(began)
        took: list[float] = []
        for _ in range(WRITES_A_TURN):
            began = rounds.begin()
            await write(engine, 0)
            took.append(await rounds.end(began))
        await crowd.leave()
        return median(took)

    async def bare_turn() -> float:
        crowd, rounds = Crowd(), Rounds(subscribers, b"bare")
        await crowd.gather(subscribers, bare.port, "/", [], rounds.heard)
        took: list[float] = []
        for _ in range(WRITES_A_TURN):
            began = rounds.begin()
            crowd.members[0].say(PAYLOAD)
            took.append(await rounds.end(began))
        await crowd.leave()
        return median(took)

    # One side at a time: both together need more open files than many systems allow per process.
    return await compare(
        "live",
        "fanout-10k",
        our_turn,
        unit="ms",
        baseline=BASELINE,
        theirs=bare_turn,
        turns=turns,
        smaller_is_better=True,
    )


async def write_to_client(engine: Engine, ours: Server, bare: Server, *, writes: int) -> list[Measurement]:
    """Measure the time from the commit until the client has the new result, with 1,000 groups and a long transaction
    open.
    """
    arrived: asyncio.Queue[float] = asyncio.Queue()
    watching, listening = Crowd(), Crowd()
    first = Rounds(GROUPS, b"")

    def count_first(listener: Listener, text: bytes) -> None:
        for _ in range(text.count(b'"hash"')):
            first.heard(listener, text)

    def note(_: Listener, text: bytes) -> None:
        if b'"hash"' in text or text == b"bare":
            arrived.put_nowait(time.perf_counter())

    began = first.begin()
    for start in range(0, GROUPS, PER_CONNECTION):
        subscriptions = [subscribe(item, item) for item in range(start, start + PER_CONNECTION)]
        await watching.gather(1, ours.port, "/live", [HELLO, *subscriptions], count_first)
    await first.end(began)
    for each in watching.members:
        each.heard = note
    await listening.gather(1, bare.port, "/", [], note)
    mine: list[float] = []
    other: list[float] = []
    stop = asyncio.Event()
    long = asyncio.create_task(_long_transactions(engine, stop))
    try:
        for n in range(writes):
            await write(engine, n % (GROUPS - 1))
            sent = time.perf_counter()
            async with asyncio.timeout(10):
                mine.append((await arrived.get() - sent) * 1000)
            sent = time.perf_counter()
            listening.members[0].say(b"bare")
            other.append((await arrived.get() - sent) * 1000)
            await asyncio.sleep(0.005)
    finally:
        stop.set()
        await long
        await watching.leave()
        await listening.leave()
    return [_percentile(50, mine, other), _percentile(99, mine, other)]


def _percentile(which: int, mine: list[float], other: list[float]) -> Measurement:
    value, baseline = (max(0.001, quantiles(each, n=100)[which - 1]) for each in (mine, other))
    halves = [quantiles(each, n=100)[which - 1] for each in (mine[: len(mine) // 2], mine[len(mine) // 2 :])]
    return Measurement(
        bench="live",
        case=f"write-to-client-p{which}",
        value=value,
        unit="ms",
        baseline=BASELINE,
        baseline_value=baseline,
        ratio=baseline / value,
        spread=abs(halves[0] - halves[1]) / value,
    )


async def _long_transactions(engine: Engine, stop: asyncio.Event) -> None:
    """Run long transactions one after another: each writes to a watched table and commits after 5 s."""
    while not stop.is_set():
        async with engine.transaction(organization=ORGANIZATION) as tx:
            await tx.execute("update onceward_bench.stock set left_over = left_over + 1 where item = $1", GROUPS)
            try:
                async with asyncio.timeout(LONG_S):
                    await stop.wait()
            except TimeoutError:
                continue


async def memory_idle(ours: Server, bare: Server, *, clients: int) -> Measurement:
    """Measure the server's memory per idle connection with a subscription, in KiB."""

    async def one(server: Server, path: str, first: list[bytes], answer: bytes | None) -> float:
        crowd, rounds = Crowd(), Rounds(clients, answer or b"")
        # The first connections include what is loaded and allocated once.
        warm = Crowd()
        await warm.gather(50, server.port, path, first, lambda _, text: None)
        await asyncio.sleep(0.5)
        before = server.memory
        began = rounds.begin()
        await crowd.gather(clients, server.port, path, first, rounds.heard)
        if answer is not None:
            await rounds.end(began)
        await asyncio.sleep(0.5)
        cost = (server.memory - before) / clients / 1024
        await crowd.leave()
        await warm.leave()
        return cost

    async def our_turn() -> float:
        return await one(ours, "/live", [HELLO, subscribe(1, 0)], b'"hash"')

    async def bare_turn() -> float:
        return await one(bare, "/", [], None)

    # Once each: a process keeps freed memory, so a second turn would seem to cost nothing.
    return await compare(
        "live",
        "memory-idle",
        our_turn,
        unit="KiB/connection",
        baseline=BASELINE,
        theirs=bare_turn,
        turns=1,
        smaller_is_better=True,
    )


async def idle_queries(db: Database, ours: Server, size: Size) -> list[Measurement]:
    """Measure the cost of 5,000 different idle live queries in one process; the baseline is the process without any."""

    for_s = size.pick(30.0, 10.0, 0.1)
    queries = size.pick(IDLE_QUERIES, IDLE_QUERIES, PER_CONNECTION)

    async def quiet() -> tuple[float, float]:
        await asyncio.sleep(size.pick(12.0, 12.0, 0.1))  # a backend reports its transactions up to ten seconds late
        before, cpu = await _transactions(db), ours.cpu_s
        await asyncio.sleep(for_s)
        return (await _transactions(db) - before) / for_s, (ours.cpu_s - cpu) / for_s * 100

    empty = await quiet()
    crowd, rounds = Crowd(), Rounds(queries, b"")

    def count(listener: Listener, text: bytes) -> None:
        for _ in range(text.count(b'"hash"')):
            rounds.heard(listener, text)

    began = rounds.begin()
    for start in range(0, queries, PER_CONNECTION):
        subscriptions = [subscribe(item, item) for item in range(start, start + PER_CONNECTION)]
        await crowd.gather(1, ours.port, "/live", [HELLO, *subscriptions], count)
    await rounds.end(began)
    full = await quiet()
    await crowd.leave()
    cases = (("idle-queries", "transactions/s"), ("idle-queries-cpu", "% of a core"))
    return [
        Measurement("live", case, value, unit, "the same process without any", without, without / max(value, 0.01), 0.0)
        for (case, unit), value, without in zip(cases, full, empty, strict=True)
    ]


async def _transactions(db: Database) -> int:
    """Return the number of transactions of this database so far."""
    return await db.fetchval(
        "select xact_commit + xact_rollback from pg_stat_database where datname = current_database()"
    )
