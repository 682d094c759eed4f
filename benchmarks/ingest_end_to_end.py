"""Measure webhooks from the first request until the last one is handled: one server process and one worker process
share the machine.

Every event must cause exactly one row, or the benchmark fails. The promises differ: FastAPI + Celery/Redis may lose an
event that it has answered (`peers/webhooks_celery.py` says how), the others may not.
"""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import socket
import sys
import tempfile
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace

from benchmarks.ingest_rig import Server, started
from benchmarks.measure import UNSHARED, UNSHARED_ENVIRONMENT, BenchFailed, Measurement, Side, Size, compare
from benchmarks.peer import application
from benchmarks.servers import SECRET
from onceward.db import Database

HANDLERS = {"tx": "charge.succeeded", "batch": "charge.batched", "no-tx": "charge.alone"}
"""The event types of `servers/ours.py` by kind of handler."""
HANDLED_WITHIN_S = 150.0


@dataclass(frozen=True, slots=True)
class Application:
    """A server and a worker of one application, and the table in which each event leaves a row."""

    name: str
    serve: Sequence[str]
    work: Sequence[str]
    effects: str
    environment: Mapping[str, str]


def ours(url: str, effects: str) -> Application:
    python = (sys.executable, "-m")
    serve = (*python, "benchmarks.ingest_server", "ours", url)
    return Application("Onceward", serve, (*python, "benchmarks.servers.ours", url), effects, {})


def theirs(name: str, title: str, url: str, redis: str = "") -> Application | None:
    command = application(name)
    if command is None:
        return None
    environment = {"BENCH_URL": url, "BENCH_REDIS": redis}
    return Application(
        title, (*command, "serve", url, SECRET), (*command, "work", url), f"bench_{name}.effects", environment
    )


@asynccontextmanager
async def running(app: Application) -> AsyncGenerator[Server]:
    async with started(app.serve, app.environment) as port, started(app.work, app.environment):
        yield Server(int(port))


class EndToEnd:
    """Sends events to applications and waits until they are handled."""

    def __init__(self, db: Database, stack: AsyncExitStack) -> None:
        self._db = db
        self._stack = stack
        self._running: dict[str, Server] = {}

    def side(self, app: Application, events: int, type: str = "charge.succeeded") -> Side:
        async def run() -> float:
            if app.name not in self._running:
                self._running[app.name] = await self._stack.enter_async_context(running(app))
                await self._measure(app, min(events, 300), type)
            return await self._measure(app, events, type)

        return run

    async def _measure(self, app: Application, events: int, type: str) -> float:
        """Return how many events per second were accepted and handled."""
        await self._db.execute(f"truncate {app.effects}")
        sent = await self._running[app.name].load(120.0, prepared=events, count=events, type=type)
        waiting = f"select count(*), count(distinct event_id), extract(epoch from max(at)) from {app.effects}"
        async with asyncio.timeout(HANDLED_WITHIN_S):
            while True:
                rows, different, last = (await self._db.fetch(waiting))[0]
                if rows >= events:
                    break
                await asyncio.sleep(0.2)
        if rows != events or different != events:
            raise BenchFailed(f"{app.name} handled {events} events with {rows} rows for {different} events")
        return events / (float(last) - sent["began_at"])


@asynccontextmanager
async def redis_server() -> AsyncGenerator[str | None]:
    """Run a Redis with its default settings, or yield None if it is not installed."""
    program = shutil.which("redis-server")
    if program is None:
        yield None
        return
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    with tempfile.TemporaryDirectory(prefix="onceward-bench-", ignore_cleanup_errors=True) as directory:
        process = await asyncio.create_subprocess_exec(
            program, "--port", str(port), "--dir", directory, stdout=asyncio.subprocess.DEVNULL
        )
        try:
            for _ in range(100):
                with contextlib.suppress(OSError):
                    socket.create_connection(("127.0.0.1", port), timeout=1).close()
                    break
                await asyncio.sleep(0.05)
            yield f"redis://127.0.0.1:{port}/0"
        finally:
            process.terminate()
            await process.wait()


async def measure(db: Database, url: str, size: Size) -> list[Measurement]:
    """Measure each kind of handler beside the installed applications."""
    events, fewer = size.pick(20_000, 6_000, 100), size.pick(4_000, 1_200, 100)
    results: list[Measurement] = []
    async with AsyncExitStack() as stack:
        redis = await stack.enter_async_context(redis_server())
        runs = EndToEnd(db, stack)
        peers = [theirs("webhooks_procrastinate", "FastAPI + Procrastinate", url)]
        if redis is not None:
            peers.append(theirs("webhooks_celery", "FastAPI + Celery/Redis (may lose events)", url, redis))
        for kind, type in HANDLERS.items():
            mine = ours(url, "onceward_bench.effects_once" if kind == "no-tx" else "onceward_bench.effects")
            side = runs.side(mine, events, type)
            beside = [each for each in peers if each is not None]
            if kind == "tx":
                beside.append(replace(mine, name=UNSHARED, environment=UNSHARED_ENVIRONMENT))
            for peer in beside or [None]:
                results.append(
                    await compare(
                        "ingest",
                        f"end-to-end-{kind}",
                        side,
                        unit="events/s",
                        baseline=None if peer is None else peer.name,
                        theirs=None if peer is None else runs.side(peer, events if peer.name == UNSHARED else fewer),
                        turns=size.turns(quick=1),
                    )
                )
    return results
