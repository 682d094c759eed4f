"""Measure how long one organization waits while another one floods the same line: noisy neighbours.

Each case measures the p99 of one thing at a time of the small organization: on an idle system, in the flood, and in the
flood with fairness off (few of them, because each may take as long as the flood). The flood is there before the first
of them, and is filled up for as long as they are measured. The target is at most twice the p99 of the idle system plus
50 ms; each case prints whether it is met.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from itertools import count
from uuid import UUID

from benchmarks.ingest import EFFECTS
from benchmarks.ingest_rig import server
from benchmarks.ingest_server import TABLE
from benchmarks.load import request
from benchmarks.measure import BenchFailed, Measurement, Size
from benchmarks.servers import SECRET
from benchmarks.smtp_sink import smtp_sink
from benchmarks.work_latency import percentile
from onceward import Engine, Job, Onceward, Tx, Workflow
from onceward.db import Database, migrate
from onceward.db.callers import Caller, calling_as
from onceward.integrations.smtp.channel import SmtpChannel
from onceward.integrations.smtp.client import Relay, Smtp
from onceward.messages import Sender, Sending, Template, Templates, queue
from onceward.outbox import EndpointFields, Outbox, OutboxOptions
from onceward.runtime import FEATURES
from onceward.trust import SecretBox
from onceward.work import AppRegistry, JobTask, Worker, WorkerOptions

FLOODING, SMALL = UUID(int=2), UUID(int=1)
"""The flooding one comes first in the order of lines: without turns, claims of lanes are at its work first."""
PAUSE_S = 0.02
"""What a piece of work of the flood takes: 64 slots finish about 3,000 in a second."""
SLOW_S = 5.0
FACTOR, ADDED_MS = 2, 50.0
"""The target: at most this multiple of the p99 on the idle system, and this much more."""
REFILL_S = 0.5
STEP = 200
"""How much of a flood is added at a time: one process enqueues, works and measures."""
ROWS = "create table if not exists neighbour_rows (n int); grant all on neighbour_rows to onceward_app"
LEFT = "select count(*) from (select from onceward.work where organization_id = $1 limit $2) flood"
LONGEST_S = 600.0
TEMPLATE = Template("bench", {"en": {"subject": "Order {{ n }}", "text": "Thank you for order {{ n }}."}}, {}, {"n": 1})
ORGANIZATIONS = (
    "insert into onceward.organizations (organization_id, slug, name) select o, 'bench-' || o, 'Bench'"
    " from unnest($1::uuid[]) o on conflict do nothing"
)
SCHEDULE = (
    "insert into onceward.schedules (name, task, queue, every_s, missed, window_s, most, overlap, decided_until)"
    " values ('bench', 'work', 'default', 60, 'once', 60, 1, 'allow', onceward.now()) on conflict do nothing"
)
app = Onceward("neighbour")
started: list[asyncio.Event] = []
"""Holds the event that a handler sets. Each run has its own: an event belongs to one event loop."""


@app.job(outside=True)
async def work(job: Job) -> None:
    if job.organization == FLOODING:
        await asyncio.sleep(PAUSE_S)
    else:
        started[-1].set()


@app.job
async def write(job: Job, tx: Tx) -> None:
    """Writes a row: handlers share commits."""
    await tx.execute("insert into neighbour_rows values (1)")
    if job.organization == SMALL:
        started[-1].set()


@app.workflow
async def story(wf: Workflow) -> None:
    if wf.organization == FLOODING:
        await asyncio.sleep(PAUSE_S)
    else:
        started[-1].set()


@dataclass(frozen=True, slots=True)
class Scene:
    """One turn: how much the flood is, and whether organizations take turns."""

    db: Database
    url: str
    flood: int
    fair: bool


One = Callable[[], Awaitable[None]]
"""Does one thing of the small organization, and returns when it has happened."""
Line = Callable[[Scene], AbstractAsyncContextManager[One]]


@asynccontextmanager
async def _working(
    scene: Scene, engine: Engine, registry: AppRegistry, **options: int | dict[str, int]
) -> AsyncGenerator[None]:
    worker = Worker(
        scene.db,
        registry,
        engine.waker,
        options=WorkerOptions(fair=scene.fair, grace_s=0.5, **{"concurrency": 64, **options}),  # pyright: ignore[reportArgumentType]
        open_tx=engine.open_tx,
    )
    await engine.start()
    await worker.start()
    try:
        yield
    finally:
        await worker.stop()
        await engine.stop()


@asynccontextmanager
async def _flooded(scene: Scene, put: Callable[[int], Awaitable[object]]) -> AsyncGenerator[None]:
    """Fill the flood up for as long as the block runs, whenever half of it has ended."""

    async def refill() -> None:
        while True:
            await asyncio.sleep(REFILL_S)
            missing = scene.flood // 2 - await scene.db.fetchval(LEFT, FLOODING, scene.flood // 2)
            for start in range(0, missing, STEP):
                await put(min(STEP, missing - start))

    refilling = asyncio.create_task(refill()) if scene.flood else None
    try:
        yield
    finally:
        if refilling is not None:
            refilling.cancel()
            await asyncio.gather(refilling, return_exceptions=True)


async def _noted() -> None:
    await asyncio.wait_for(started[-1].wait(), LONGEST_S)
    started[-1].clear()


def _enqueued(job: JobTask[..., None], key: str | None = None) -> Line:
    @asynccontextmanager
    async def line(scene: Scene) -> AsyncGenerator[One]:
        engine = Engine(scene.db, app.registry)
        flood = job.for_organization(FLOODING)
        numbers = count()

        async def put(many: int) -> None:
            lanes = (f"{key}{next(numbers) % 10_000}" for _ in range(many))
            await engine.enqueue_many([(flood.in_order(lane) if key else flood).call() for lane in lanes])

        async def one() -> None:
            small = job.for_organization(SMALL)
            await engine.enqueue(small.in_order("small") if key else small)
            await _noted()

        await put(scene.flood)
        async with _working(scene, engine, app.registry), _flooded(scene, put):
            yield one

    return line


@asynccontextmanager
async def _workflows(scene: Scene) -> AsyncGenerator[One]:
    engine = Engine(scene.db, app.registry)

    async def one() -> None:
        await engine.start_workflow(story.for_organization(SMALL))
        await _noted()

    async def put(many: int) -> None:
        for start in range(0, many, STEP):
            some = range(start, min(many, start + STEP))
            await asyncio.gather(*(engine.start_workflow(story.for_organization(FLOODING)) for _ in some))

    await put(scene.flood)
    async with _working(scene, engine, app.registry), _flooded(scene, put):
        yield one


@asynccontextmanager
async def _runs(scene: Scene) -> AsyncGenerator[One]:
    """Runs of schedules belong to no organization."""
    engine = Engine(scene.db, app.registry)
    await scene.db.execute(SCHEDULE)

    async def put(many: int) -> None:
        await engine.enqueue_many([work.for_organization(FLOODING).call()] * many)

    async def one() -> None:
        await scene.db.execute("select onceward.write_run('bench', clock_timestamp(), 'clock', 0)")
        engine.waker.wake("default")
        await _noted()

    await put(scene.flood)
    async with _working(scene, engine, app.registry), _flooded(scene, put):
        yield one


@asynccontextmanager
async def _messages(scene: Scene) -> AsyncGenerator[One]:
    """Mails through the account of the installation, which both share."""
    templates, registry = Templates(), AppRegistry()
    templates.add(TEMPLATE)
    engine = Engine(scene.db, registry)

    async def put(owner: UUID, many: int) -> int:
        sendings = [Sending(to="a@example.org", key=f"{time.monotonic_ns()}:{n}", data={"n": n}) for n in range(many)]
        async with scene.db.transaction(organization=owner) as tx:
            queued = await queue(tx, TEMPLATE, sendings)
        engine.waker.wake("message.email")
        return queued[-1].id if queued else 0

    async def one() -> None:
        id = await put(SMALL, 1)
        while await scene.db.fetchval("select exists (select from onceward.work where id = $1)", id):
            await asyncio.sleep(0.001)

    async with smtp_sink() as sink:
        channel = SmtpChannel(
            Smtp(Relay("127.0.0.1", sink.port, encryption="none", max_connections=16)), sender="b@example.org"
        )
        Sender(scene.db, [channel], templates).install(registry)
        if scene.flood:
            await put(FLOODING, scene.flood)
        working = _working(scene, engine, registry, concurrency=16)
        async with working, _flooded(scene, lambda many: put(FLOODING, many)):
            yield one
        await channel.aclose()


@asynccontextmanager
async def _deliveries(scene: Scene) -> AsyncGenerator[One]:
    """The endpoint of the flooding organization answers after 5 seconds."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                length = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
                await reader.readexactly(length)
                if b"/slow" in head:
                    await asyncio.sleep(SLOW_S)
                else:
                    started[-1].set()
                writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    customers = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = customers.sockets[0].getsockname()[1]
    registry = AppRegistry()
    engine = Engine(scene.db, registry)
    options = OutboxOptions(allow_loopback_http=True)
    outbox = Outbox(scene.db, box=SecretBox(["bench " * 6]), options=options, waker=engine.waker)
    outbox.install(registry)
    await scene.db.execute("delete from onceward.endpoints")
    for owner, path in ((FLOODING, "slow"), (SMALL, "quick")):
        fields = EndpointFields(url=f"http://127.0.0.1:{port}/{path}", events=["*"])
        await outbox.endpoints.register(owner, fields, actor="bench")

    async def put(owner: UUID, many: int) -> None:
        async with engine.transaction(organization=owner) as tx:
            for _ in range(many):
                await tx.publish("order.paid", {"id": 1})

    async def one() -> None:
        await put(SMALL, 1)
        await _noted()

    async with _working(scene, engine, registry, queue_concurrency=outbox.queue_concurrency):
        for begin in range(0, scene.flood, 1000):
            await put(FLOODING, min(1000, scene.flood - begin))
        yield one
    await outbox.stop()
    customers.close()


@asynccontextmanager
async def _webhooks(scene: Scene) -> AsyncGenerator[One]:
    """64 connections send to one source for as long as it is measured. Fairness off: both send to the same source."""
    async with scene.db.acquire() as conn:
        await conn.execute(TABLE)
        await conn.execute(EFFECTS)
    path = b"/webhooks/quiet" if scene.fair else b"/webhooks/stripe"
    async with server("ours", scene.url) as ours:
        reader, writer = await asyncio.open_connection("127.0.0.1", ours.port)

        async def one() -> None:
            writer.write(request(path, SECRET.encode(), b"charge.succeeded", b"one%d" % time.monotonic_ns()))
            head = await reader.readuntil(b"\r\n\r\n")
            await reader.readexactly(int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0]))
            if b" 200 " not in head[:20]:
                raise BenchFailed(f"a webhook was answered {head[:20]!r}")

        flood = asyncio.create_task(ours.load(scene.flood / 1000)) if scene.flood else None
        try:
            yield one
        finally:
            writer.close()
            if flood is not None:
                await flood


def _connections(statement: str, principals: int) -> Line:
    """One organization has this number of callers that borrow a connection again and again for the statement."""

    @asynccontextmanager
    async def line(scene: Scene) -> AsyncGenerator[One]:
        def caller(owner: UUID, number: int) -> Caller | None:
            return Caller(owner, f"caller {number}") if scene.fair else None

        async def again(number: int) -> None:
            with calling_as(caller(FLOODING, number)):
                while True:
                    async with scene.db.transaction() as tx:
                        await tx.execute(statement)

        async def one() -> None:
            with calling_as(caller(SMALL, 0)):
                async with scene.db.transaction() as tx:
                    await tx.fetchval("select count(*) from onceward.organizations")

        flood = [asyncio.create_task(again(n)) for n in range(principals if scene.flood else 0)]
        try:
            yield one
        finally:
            for task in flood:
                task.cancel()
            await asyncio.gather(*flood, return_exceptions=True)

    return line


LINES: dict[str, tuple[Line, tuple[int, int, int]]] = {
    "jobs": (_enqueued(work), (200_000, 30_000, 300)),
    "jobs-tx": (_enqueued(write), (200_000, 30_000, 300)),
    "keys": (_enqueued(work, "key "), (200_000, 30_000, 300)),
    "webhooks": (_webhooks, (90_000, 30_000, 1000)),
    "messages": (_messages, (20_000, 5000, 50)),
    "deliveries": (_deliveries, (20_000, 2000, 20)),
    "workflows": (_workflows, (5000, 2000, 50)),
    "runs": (_runs, (200_000, 30_000, 300)),
    "live": (_connections("select pg_sleep(0.005)", 2000), (1, 1, 1)),
    "pages": (_connections("select pg_sleep(0.5)", 100), (1, 1, 1)),
}
"""Each line, and the size of its flood in a full, quick and smoke run (of `webhooks`: how many milliseconds it
lasts).
"""
CASES = tuple(LINES)


async def run(size: Size, url: str, *, only: str | None = None) -> list[Measurement]:
    """Run all cases, or one."""
    started[:] = [asyncio.Event()]
    db = await Database.open(url, min_size=10, max_size=20)
    try:
        async with db.acquire() as conn:
            await migrate(conn, FEATURES.migrations)
        await db.execute(ORGANIZATIONS, [FLOODING, SMALL])
        await db.execute(ROWS)
        return [
            each
            for case, (line, floods) in LINES.items()
            if only in (None, case)
            for each in await _measure(case, line, db, url, size, size.pick(*floods))
        ]
    finally:
        await db.close()


async def _measure(case: str, line: Line, db: Database, url: str, size: Size, flood: int) -> list[Measurement]:
    times, every_s = size.pick(60, 20, 3), size.pick(1.0, 0.2, 0.01)
    idle = await _p99(Scene(db, url, 0, True), line, times, every_s)
    fair = await _p99(Scene(db, url, flood, True), line, times, every_s)
    unfair = await _p99(Scene(db, url, flood, False), line, size.pick(3, 1, 1), every_s)
    target = FACTOR * idle + ADDED_MS
    verdict = "met" if fair <= target else "NOT met"
    sys.stderr.write(f"neighbour {case}: the target of at most {target:,.1f} ms is {verdict} with {fair:,.1f} ms\n")
    baseline = "p99 on an idle system"
    return [
        Measurement("neighbour", name, value, "ms", baseline, idle, idle / value, 0.0)
        for name, value in ((case, fair), (f"{case}-unfair", unfair))
    ]


async def _p99(scene: Scene, line: Line, times: int, every_s: float) -> float:
    """Return the p99 in milliseconds of one thing at a time."""
    await scene.db.execute("truncate onceward.work, onceward.claims, onceward.jobs, onceward.attempts")
    started[-1].clear()
    waits: list[float] = []
    async with line(scene) as one:
        for _ in range(times):
            await asyncio.sleep(every_s)
            begun = time.perf_counter()
            await one()
            waits.append((time.perf_counter() - begun) * 1000)
    return percentile(waits, 99)
