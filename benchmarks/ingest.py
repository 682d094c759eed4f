"""Measure received webhooks: signed, unique, about 150 bytes of JSON, 64 connections, one server process, fsync on.

If any answer is not 200, the benchmark fails and reports no rate.
"""

from __future__ import annotations

import asyncio
import importlib.util
import sys
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import orjson

from benchmarks.ingest_server import TABLE
from benchmarks.measure import BenchFailed, Measurement, Side, Size, compare
from benchmarks.servers import SECRET
from onceward.db import Database, migrate
from onceward.runtime import FEATURES

CASES = ("ack", "duplicate", "inline", "ack-history")
CONNECTIONS = 64
MOST_PER_S = 25_000
"""How many requests are signed in advance: signing while sending would take CPU from the server."""
FASTAPI_SERVER = "fastapi_sqlalchemy"
FASTAPI = "FastAPI + SQLAlchemy endpoint"
EMPTY = "empty ASGI app"

EFFECTS = """
create table if not exists onceward_bench.effects (id bigserial primary key, event_id text not null);
grant usage on schema onceward_bench to onceward_app;
grant all on onceward_bench.effects to onceward_app;
grant all on sequence onceward_bench.effects_id_seq to onceward_app;
"""

HISTORY = """
insert into onceward.webhook_events (id, webhook_id, event_id, provider, type, payload, raw, headers, status, attempts, origin)
select gen_random_uuid(), 'aaaaaaaa-0000-4000-8000-000000000000', 'evt_' || md5(n::text), 'stripe', 'charge.succeeded',
       '{"id": "evt", "type": "charge.succeeded", "data": {"object": {"amount": 4200}}}',
       '\\x7b7d', '{}', 'success', 1, 'http'
  from generate_series($1::bigint, $2::bigint) n
"""


class Server:
    """One of the servers, with a method that puts load on it."""

    def __init__(self, port: int) -> None:
        self._port = port

    async def load(
        self, for_s: float, *, path: str = "/webhooks/stripe", prepared: int | None = None, **more: Any
    ) -> dict[str, Any]:
        options = {
            "port": self._port,
            "path": path,
            "secret": SECRET,
            "connections": CONNECTIONS,
            "for_s": for_s,
            "prepared": int(for_s * MOST_PER_S) if prepared is None else prepared,
            **more,
        }
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "benchmarks.load", orjson.dumps(options).decode(), stdout=asyncio.subprocess.PIPE
        )
        try:
            output, _ = await asyncio.wait_for(process.communicate(), timeout=for_s + 60)
        except TimeoutError:
            process.kill()
            raise BenchFailed("the load generator did not finish in time") from None
        if process.returncode != 0:
            raise BenchFailed(f"the load generator ended with {process.returncode}")
        answer: dict[str, Any] = orjson.loads(output)
        if set(answer["statuses"]) != {"200"}:
            raise BenchFailed(f"not every answer was 200: {answer['statuses']}")
        return answer


@asynccontextmanager
async def server(which: str, url: str) -> AsyncGenerator[Server]:
    """Run a server in its own process and stop it at the end."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "benchmarks.ingest_server", which, url, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    try:
        output = await asyncio.wait_for(process.stdout.readline(), timeout=30)
        if not output.strip().isdigit():
            raise BenchFailed(f"the {which} server did not start")
        yield Server(int(output))
    finally:
        if process.returncode is None:
            process.terminate()
        try:
            await asyncio.wait_for(process.wait(), timeout=10)
        except TimeoutError:
            process.kill()


class Sides:
    """The servers under comparison; each starts at first use."""

    def __init__(self, stack: AsyncExitStack, url: str, for_s: float) -> None:
        self._stack = stack
        self._url = url
        self._started: dict[str, Server] = {}
        self.for_s = for_s

    async def get(self, which: str) -> Server:
        if which not in self._started:
            self._started[which] = await self._stack.enter_async_context(server(which, self._url))
            await self._started[which].load(min(1.0, self.for_s), prepared=2000)
        return self._started[which]

    async def rate(self, which: str, **options: Any) -> float:
        return (await (await self.get(which)).load(self.for_s, **options))["rate"]


async def run(size: Size, url: str, only: str | None = None) -> list[Measurement]:
    """Run each case with its baselines. `ack` has two baselines, so it gives two lines, and a third for its p99."""
    db = await Database.open(url, min_size=1, max_size=2)
    async with db.acquire() as conn:
        await migrate(conn, FEATURES.migrations)
        await conn.execute(TABLE)
        await conn.execute(EFFECTS)
    results: list[Measurement] = []
    try:
        async with AsyncExitStack() as stack:
            sides = Sides(stack, url, size.pick(8.0, 2.0, 2.0))
            for case in CASES:
                if only in (None, case):
                    results += await MEASURES[case](db, sides, size)
    finally:
        await db.execute("drop schema if exists onceward_bench cascade")
        await db.close()
    return results


async def _ack(_db: Database, sides: Sides, size: Size) -> list[Measurement]:
    """Measure all three servers in each turn, so that both ratios come from the same minutes."""
    turns = size.turns()
    rates: dict[str, list[float]] = {}
    slowest: dict[str, list[float]] = {}
    for _ in range(turns):
        for which in ("ours", FASTAPI_SERVER, "empty") if _has_sqlalchemy() else ("ours", "empty"):
            answer = await (await sides.get(which)).load(sides.for_s)
            rates.setdefault(which, []).append(answer["rate"])
            slowest.setdefault(which, []).append(answer["p99_ms"])

    def from_(values: list[float]) -> Side:
        left = iter(values)

        async def next_() -> float:
            return next(left)

        return next_

    results: list[Measurement] = []
    for which, name in ((FASTAPI_SERVER, FASTAPI), ("empty", EMPTY)):
        theirs = from_(rates[which]) if which in rates else None
        results.append(
            await compare(
                "ingest", "ack", from_(rates["ours"]), unit="requests/s", baseline=name, theirs=theirs, turns=turns
            )
        )
    results.append(
        await compare(
            "ingest",
            "ack-p99",
            from_(slowest["ours"]),
            unit="ms",
            baseline=EMPTY,
            theirs=from_(slowest["empty"]),
            turns=turns,
            smaller_is_better=True,
        )
    )
    return results


async def _duplicate(_db: Database, sides: Sides, size: Size) -> list[Measurement]:
    async def ours() -> float:
        return await sides.rate("ours", prepared=2000, repeat=True, prefix="duplicate")

    await ours()
    return [
        await compare(
            "ingest",
            "duplicate",
            ours,
            unit="requests/s",
            baseline="ack",
            theirs=lambda: sides.rate("ours"),
            turns=size.turns(),
        )
    ]


async def _inline(_db: Database, sides: Sides, size: Size) -> list[Measurement]:
    return [await _against_fastapi("inline", lambda: sides.rate("ours", path="/webhooks/inline"), sides, size)]


async def _history(db: Database, sides: Sides, size: Size) -> list[Measurement]:
    before: list[float] = [await sides.rate("ours") for _ in range(size.turns())]
    rows = size.pick(10_000_000, 1_000_000, 1000)
    for start in range(1, rows, 250_000):
        await db.execute(HISTORY, start, min(start + 249_999, rows))
    await db.execute("vacuum analyze onceward.webhook_events")

    async def without() -> float:
        return before.pop()

    return [
        await compare(
            "ingest",
            "ack-history",
            lambda: sides.rate("ours"),
            unit="requests/s",
            baseline="ack, empty table",
            theirs=without,
            turns=size.turns(),
        )
    ]


async def _against_fastapi(case: str, ours: Any, sides: Sides, size: Size) -> Measurement:
    if not _has_sqlalchemy():
        return await compare("ingest", case, ours, unit="requests/s", turns=size.turns())
    return await compare(
        "ingest",
        case,
        ours,
        unit="requests/s",
        baseline=FASTAPI,
        theirs=lambda: sides.rate(FASTAPI_SERVER),
        turns=size.turns(),
    )


def _has_sqlalchemy() -> bool:
    return all(importlib.util.find_spec(name) is not None for name in ("sqlalchemy", "greenlet"))


MEASURES = {"ack": _ack, "duplicate": _duplicate, "inline": _inline, "ack-history": _history}
