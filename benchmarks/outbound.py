"""Measure sent webhooks from `publish` to a 2xx of a local sink; the baseline is an equally concurrent aiohttp loop."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from uuid import UUID

import aiohttp

from benchmarks.measure import BenchFailed, Measurement, Size, compare
from onceward.db import Database, migrate
from onceward.engine import Engine
from onceward.outbox import EndpointFields, Outbox, OutboxOptions
from onceward.runtime import FEATURES
from onceward.trust import SecretBox
from onceward.work import AppRegistry, Task, Worker, WorkerOptions

CONCURRENCY = 256
ENDPOINTS = 50
DATA = {"enrollmentId": "e1", "userId": "u1", "cohortName": "Spring", "amountPaid": 12900, "currency": "EUR"}
BODY = b"x" * 260
BASELINE = "bare aiohttp loop"
BESIDE_DEAD = "healthy-beside-dead"
ALONE = "the same endpoints without dead ones"
HANGING = ENDPOINTS // 10

DEAD = {"dispatch": 0, "dispatch-10pct-dead": HANGING}
"""Cases, with the number of endpoints that never answer."""
CASES = (*DEAD, BESIDE_DEAD)


async def run(size: Size, url: str, *, only: str | None = None) -> list[Measurement]:
    """Run the cases. Only deliveries to healthy endpoints count."""
    events = size.pick(300, 100, 2)
    db = await Database.open(url, min_size=4, max_size=12)
    try:
        async with db.acquire() as conn:
            await migrate(conn, FEATURES.migrations)
        async with _sink() as port:
            measured: list[Measurement] = []
            for case, dead in DEAD.items():
                if only not in (None, case):
                    continue
                async with _outbox(db) as bench:
                    await bench.register(port, dead=dead)
                    measured.append(
                        await compare(
                            "outbound",
                            case,
                            lambda bench=bench: bench.dispatch(events),
                            unit="requests/s",
                            baseline=BASELINE,
                            theirs=lambda: _bare(port, events * ENDPOINTS),
                            turns=size.turns(),
                        )
                    )
            if only in (None, BESIDE_DEAD):
                measured.append(
                    await compare(
                        "outbound",
                        BESIDE_DEAD,
                        lambda: _healthy(db, port, events, dead=HANGING),
                        unit="requests/s",
                        baseline=ALONE,
                        theirs=lambda: _healthy(db, port, events, dead=0),
                        turns=size.turns(),
                    )
                )
            return measured
    finally:
        await db.close()


class _Bench:
    """One process that publishes and delivers."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._registry = AppRegistry()
        self._engine = Engine(db, self._registry)
        options = OutboxOptions(concurrency=CONCURRENCY, allow_loopback_http=True)
        self._outbox = Outbox(db, box=SecretBox(["bench " * 6]), options=options, waker=self._engine.waker)
        self._outbox.install(self._registry)
        self._worker = Worker(
            db,
            self._registry,
            self._engine.waker,
            options=WorkerOptions(queue_concurrency=self._outbox.queue_concurrency, grace_s=0.0),
            count=self._count,
        )
        self._succeeded = 0
        self._organization: UUID | None = None
        self._healthy = 0

    async def start(self) -> None:
        await self._engine.start()
        await self._worker.start()

    async def stop(self) -> None:
        await self._worker.stop()
        await self._outbox.stop()
        await self._engine.stop()

    async def register(self, port: int, *, dead: int, healthy: int | None = None) -> None:
        self._organization = await self._db.fetchval(
            "insert into onceward.organizations (slug, name) values ('bench-' || substr(gen_random_uuid()::text, 1,"
            " 8), 'Bench') returning organization_id"
        )
        self._healthy = ENDPOINTS - dead if healthy is None else healthy
        for n in range(dead + self._healthy):
            path = "dead" if n < dead else "hook"
            fields = EndpointFields(url=f"http://127.0.0.1:{port}/{path}/{n}", events=["*"])
            await self._outbox.endpoints.register(self._organization, fields, actor="bench")

    async def dispatch(self, events: int) -> float:
        """Publish from a few callers, and stop the time when every healthy endpoint has acknowledged every event."""
        newest: int = await self._db.fetchval("select coalesce(max(id), 0) from onceward.published")
        waiting = iter(range(events))
        before = self._succeeded

        async def publisher() -> None:
            for _ in waiting:
                async with self._engine.transaction(organization=self._organization) as tx:
                    await tx.publish("enrollment.created", DATA)

        started = time.perf_counter()
        await asyncio.gather(*(publisher() for _ in range(4)))
        expected = events * self._healthy
        # Only the end asks the database: repeated counting would disturb the measurement.
        while self._succeeded - before < expected or await self._delivered(newest) < expected:
            if time.perf_counter() - started > 60:
                raise BenchFailed(f"only {await self._delivered(newest)} of {expected} arrived within a minute")
            await asyncio.sleep(0.005)
        return expected / (time.perf_counter() - started)

    def _count(self, _queue: str, _task: Task, outcome: str, _seconds: float, _shared: int) -> None:
        self._succeeded += outcome == "success"

    async def _delivered(self, newest: int) -> int:
        return await self._db.fetchval(
            "select count(*) from onceward.deliveries where caused_by > $1 and status = 'success'", newest
        )


@asynccontextmanager
async def _outbox(db: Database) -> AsyncGenerator[_Bench]:
    bench = _Bench(db)
    await bench.start()
    try:
        yield bench
    finally:
        await bench.stop()


async def _healthy(db: Database, port: int, events: int, *, dead: int) -> float:
    """Return the rate of the healthy endpoints next to `dead` ones. No request is left open after the turn."""
    async with _outbox(db) as bench:
        await bench.register(port, dead=dead, healthy=ENDPOINTS - HANGING)
        await bench.dispatch(5)
        rate = await bench.dispatch(events)
    await db.execute("delete from onceward.work where kind = 'delivery'")
    return rate


async def _bare(port: int, requests: int) -> float:
    """Send the same number of requests without Onceward."""
    waiting = iter(range(requests))
    connector = aiohttp.TCPConnector(limit=CONCURRENCY)
    async with aiohttp.ClientSession(connector=connector) as session:

        async def caller() -> None:
            for n in waiting:
                async with session.post(
                    f"http://127.0.0.1:{port}/hook/{n % ENDPOINTS}",
                    data=BODY,
                    headers={"Content-Type": "application/json"},
                ) as response:
                    await response.read()

        started = time.perf_counter()
        await asyncio.gather(*(caller() for _ in range(CONCURRENCY)))
        return requests / (time.perf_counter() - started)


@asynccontextmanager
async def _sink() -> AsyncGenerator[int]:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "benchmarks.sink",
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        yield int(await process.stdout.readline())
    finally:
        process.stdin.close()
        await process.wait()
