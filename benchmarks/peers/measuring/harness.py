"""Measure every Python peer in the same way: an adapter enqueues and works, this file measures the time.

Times come from the monotonic clock, which all processes of a machine share, so they can be compared between worker and
parent. Statements that are not the peer's own use a separate psycopg connection.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Protocol

import psycopg
import uvloop

ARGUMENT = {"a": "x" * 142}
"""150 bytes as compact JSON."""

WRITES = os.environ.get("BENCH_WRITES", "")
"""What a handler writes: nothing, `insert` (one row) or `update` (one of a hundred rows, locked first)."""
INSERT = "insert into onceward_bench.sink (body) values ($1)"
LOCK = "select n from onceward_bench.hot where id = $1 for update"
UPDATE = "update onceward_bench.hot set n = n + 1 where id = $1"

PER_CALL = 10_000
"""The largest number of jobs in one call of a peer's bulk API."""

DEADLINE_S = 300
REPORT_S = 0.02
POLL_S = 0.005


class Peer(Protocol):
    """The interface of an adapter. The harness drops `schema`; `unfinished` is SQL that says whether work is left."""

    schema: str
    unfinished: str

    def __init__(self, url: str) -> None: ...
    async def install(self) -> None: ...
    async def open(self, connections: int) -> None: ...
    async def enqueue(self) -> None: ...
    async def enqueue_many(self, count: int) -> None: ...
    async def work(self, handled: Callable[[], None]) -> None: ...


class Tally:
    """The start time of the first handler in this process, and the number of handlers that ran."""

    def __init__(self) -> None:
        self.first_ns = 0
        self.done = 0

    def handled(self) -> None:
        if not self.done:
            self.first_ns = time.monotonic_ns()
        self.done += 1


def main(peer_type: type[Peer]) -> None:
    """Run one case, print one line of JSON and exit at once: the shutdown of a worker is not measured."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--url", required=True)
    parser.add_argument("--case", required=True, choices=[*CASES, "worker", "announcer"])
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--callers", type=int, default=32)
    parser.add_argument("--per-call", type=int, default=PER_CALL)
    given = parser.parse_args()
    finish(_case(peer_type(given.url), given))


def finish(case: Awaitable[dict[str, object] | None]) -> None:
    """Run a case, print its result, and exit without waiting for other tasks."""

    async def within_deadline() -> dict[str, object] | None:
        return await asyncio.wait_for(case, DEADLINE_S)

    try:
        line = uvloop.run(within_deadline())
    except TimeoutError:
        print(f"not finished within {DEADLINE_S} s", file=sys.stderr, flush=True)
        os._exit(1)
    if line is not None:
        print(json.dumps(line), flush=True)
    os._exit(0)


async def _case(peer: Peer, given: argparse.Namespace) -> dict[str, object] | None:
    if given.case in ("worker", "announcer"):
        await (_worker if given.case == "worker" else _announcer)(peer)
        return None
    await sql(given.url, f"drop schema if exists {peer.schema} cascade")
    await peer.install()
    match given.case:
        case "enqueue":
            return await _enqueue(peer, given.count, given.callers)
        case "bulk":
            return await _bulk(peer, given.count, given.per_call)
        case "drain":
            return await _drain(peer, given.url, given.count, given.processes)
        case "latency":
            return await _latency(peer, given.count)
        case _:
            return await _latency_across(peer, given.url, given.count)


async def in_turns(call: Callable[[], Awaitable[object]], *, count: int, callers: int) -> tuple[float, list[float]]:
    """Make `count` calls from `callers` concurrent callers. Return the total seconds and the ms of every call."""
    left = count
    took: list[float] = []

    async def caller() -> None:
        nonlocal left
        while left > 0:
            left -= 1
            began = time.perf_counter()
            await call()
            took.append((time.perf_counter() - began) * 1000)

    began = time.perf_counter()
    await asyncio.gather(*(caller() for _ in range(callers)))
    return time.perf_counter() - began, took


async def _enqueue(peer: Peer, count: int, callers: int) -> dict[str, object]:
    await peer.open(callers)
    await in_turns(peer.enqueue, count=callers * 2, callers=callers)
    seconds, took = await in_turns(peer.enqueue, count=count, callers=callers)
    return {"value": count / seconds, "unit": "jobs/s", "p99": percentile(took, 99)}


async def _bulk(peer: Peer, count: int, per_call: int) -> dict[str, object]:
    await peer.open(2)
    await peer.enqueue_many(10)
    began = time.perf_counter()
    await fill(peer, count, per_call)
    return {"value": count / (time.perf_counter() - began), "unit": "jobs/s", "p99": None}


async def fill(peer: Peer, count: int, per_call: int = PER_CALL) -> None:
    while count > 0:
        await peer.enqueue_many(min(count, per_call))
        count -= per_call


async def _drain(peer: Peer, url: str, count: int, processes: int) -> dict[str, object]:
    await peer.open(2)
    await fill(peer, count)
    await vacuum(url, peer.schema)
    workers = await asyncio.gather(*(_start_worker(url) for _ in range(processes)))
    try:
        for worker in workers:
            assert worker.stdin is not None
            worker.stdin.write(b"go\n")
        first_ns = await _all_handled(workers, count)
        async with await psycopg.AsyncConnection.connect(url, autocommit=True) as conn:
            while (await (await conn.execute(peer.unfinished)).fetchone()) != (False,):  # type: ignore[arg-type]
                await asyncio.sleep(POLL_S)
        seconds = (time.monotonic_ns() - first_ns) / 1e9
    finally:
        for worker in workers:
            worker.kill()
    return {"value": count / seconds, "unit": "jobs/s", "p99": None}


async def _start_worker(url: str, role: str = "worker") -> asyncio.subprocess.Process:
    """Start a worker process that connects and waits for the start signal, so that its start is not measured."""
    worker = await asyncio.create_subprocess_exec(
        *(sys.executable, sys.argv[0], "--case", role, "--url", url),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    assert worker.stdout is not None
    if await worker.stdout.readline() != b"ready\n":
        raise SystemExit("a worker process did not start; its output is above")
    return worker


async def _all_handled(workers: list[asyncio.subprocess.Process], count: int) -> int:
    """Wait until the workers together have run every job, and return when the first of them began."""
    done = [0] * len(workers)
    began: list[int] = []
    everything = asyncio.Event()

    async def follow(number: int, worker: asyncio.subprocess.Process) -> None:
        assert worker.stdout is not None
        while line := await worker.stdout.readline():
            first_ns, handled = map(int, line.split())
            if not done[number]:
                began.append(first_ns)
            done[number] = handled
            if sum(done) >= count:
                everything.set()
        raise SystemExit("a worker process ended before the work did; its output is above")

    followers = [asyncio.create_task(follow(*each)) for each in enumerate(workers)]
    waiting = asyncio.create_task(everything.wait())
    await asyncio.wait([*followers, waiting], return_when=asyncio.FIRST_COMPLETED)
    for follower in followers:
        if follower.done():
            follower.result()
        follower.cancel()
    return min(began)


async def _worker(peer: Peer) -> None:
    """The process that `_start_worker` starts: it reports its progress and ends with its parent."""
    tally = Tally()
    await peer.open(2)
    print("ready", flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    parent_gone = asyncio.create_task(asyncio.to_thread(sys.stdin.readline))
    working = asyncio.create_task(peer.work(tally.handled))
    reported = 0
    while not parent_gone.done() and not working.done():
        await asyncio.sleep(REPORT_S)
        if tally.done != reported:
            reported = tally.done
            print(tally.first_ns, reported, flush=True)
    if working.done():
        working.result()


async def _latency(peer: Peer, count: int) -> dict[str, object]:
    """Measure one job at a time with an idle worker in the same process, after a few warm-up jobs."""
    started = asyncio.Event()
    at = 0.0

    def handled() -> None:
        nonlocal at
        at = time.perf_counter()
        started.set()

    await peer.open(4)
    working = asyncio.create_task(peer.work(handled))
    took: list[float] = []
    for _ in range(count + WARM_UP):
        started.clear()
        began = time.perf_counter()
        await peer.enqueue()
        arrived = asyncio.create_task(started.wait())
        await asyncio.wait([arrived, working], return_when=asyncio.FIRST_COMPLETED)
        if not arrived.done():
            working.result()
        took.append((at - began) * 1000)
        await asyncio.sleep(PAUSE_S)
    took = took[WARM_UP:]
    return {"value": percentile(took, 50), "unit": "ms", "p99": percentile(took, 99)}


async def _latency_across(peer: Peer, url: str, count: int) -> dict[str, object]:
    """Measure one job at a time at random small intervals, with an idle worker in another process."""
    await peer.open(4)
    worker = await _start_worker(url, "announcer")
    assert worker.stdin is not None
    assert worker.stdout is not None
    took: list[float] = []
    try:
        worker.stdin.write(b"go\n")
        for _ in range(count + WARM_UP):
            began = time.monotonic_ns()
            await peer.enqueue()
            took.append((int(await worker.stdout.readline()) - began) / 1e6)
            await asyncio.sleep(0.001 + random.random() * MOST_PAUSE_S)
    finally:
        worker.kill()
    took = took[WARM_UP:]
    return {"value": percentile(took, 50), "unit": "ms", "p99": percentile(took, 99)}


async def _announcer(peer: Peer) -> None:
    """The worker of `_latency_across`: it prints when each handler starts, and ends with its parent."""
    await peer.open(2)
    print("ready", flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    parent_gone = asyncio.create_task(asyncio.to_thread(sys.stdin.readline))
    working = asyncio.create_task(peer.work(lambda: print(time.monotonic_ns(), flush=True)))
    await asyncio.wait([parent_gone, working], return_when=asyncio.FIRST_COMPLETED)
    if working.done():
        working.result()


CASES = ("enqueue", "bulk", "drain", "latency", "latency-across")
WARM_UP = 10
PAUSE_S = 0.01
MOST_PAUSE_S = 0.02


def percentile(values: list[float], percent: int) -> float:
    ranked = sorted(values)
    return ranked[min(len(ranked) - 1, len(ranked) * percent // 100)]


async def sql(url: str, statement: str) -> None:
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as conn:
        await conn.execute(statement)  # type: ignore[arg-type]


async def vacuum(url: str, schema: str) -> None:
    """Vacuum and analyze, so that visibility map and statistics exist as in a table of some age."""
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as conn:
        tables = await conn.execute("select relname from pg_stat_user_tables where schemaname = %s", [schema])
        for (table,) in await tables.fetchall():
            await conn.execute(f'vacuum analyze "{schema}"."{table}"')  # type: ignore[arg-type]
