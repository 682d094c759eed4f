"""Measure received webhooks: signed, unique, 64 connections, one server process, fsync on. A body has about 150 bytes
of JSON, in `ack-2k` and `ack-20k` about 2 and 20 KB, as from Stripe and GitHub.

If any answer is not 200, the benchmark fails and reports no rate.
"""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any

from benchmarks.bodies import template
from benchmarks.ingest_end_to_end import measure as end_to_end
from benchmarks.ingest_families import measure as measure_families
from benchmarks.ingest_rig import Sides
from benchmarks.ingest_server import TABLE
from benchmarks.measure import UNSHARED, Measurement, Side, Size, compare, pgbench
from benchmarks.measure import rate as measured_rate
from onceward.db import Database, migrate
from onceward.runtime import FEATURES

CASES = ("ack", "ack-2k", "ack-20k", "duplicate", "inline", "end-to-end", "ack-families", "ack-history")
MOST_LARGE_PER_S = {"2k": 15_000, "20k": 5_000}
COPIED_TOGETHER = 32
"""How many bodies one COPY writes: about as many as a group commit of the server under this load."""
FASTAPI_SERVER = "fastapi_sqlalchemy"
FASTAPI = "FastAPI + SQLAlchemy endpoint"
EMPTY = "empty ASGI app"
COPIED = "the same bodies by COPY"

BODIES = """
create table if not exists onceward_bench.bodies (id bigserial primary key, body bytea not null);
alter table onceward_bench.bodies alter column body set storage external;
"""

EFFECTS = """
create table if not exists onceward_bench.effects (
    id bigserial primary key, event_id text not null, at timestamptz not null default clock_timestamp()
);
create table if not exists onceward_bench.effects_once (event_id text primary key,
    at timestamptz not null default clock_timestamp());
grant usage on schema onceward_bench to onceward_app;
grant all on onceward_bench.effects to onceward_app;
grant all on sequence onceward_bench.effects_id_seq to onceward_app;
"""

INLINE_CLIENTS = 20
"""As many as the server has connections."""
INLINE = r"""
\set id random(1, 1000000000000000)
begin\; set local lock_timeout = 10000\; select onceward.receive_inline(nextval('onceward.ids'), now(),
    gen_random_uuid(),
    'aaaaaaaa-0000-4000-8000-000000000000', 'evt_:id', null, 'stripe', 'charge.succeeded', null, true,
        convert_to(repeat('x', 150), 'UTF8'),
    '{}', repeat('s', 80), null)\; set local lock_timeout = 0\; savepoint handler\; set local role onceward_app\;
    set local onceward.organization = ''\; set local onceward.cause = 'event'\;
    select where current_setting('onceward.stored_event', true) = '0';
insert into onceward_bench.effects (event_id) values ('evt_:id');
reset role\; set constraints all immediate\;
    select onceward.succeed_inline(currval('onceward.ids'), null, 'stripe/charge.succeeded', 0.001, '{}')\; commit;
"""

HISTORY = """
insert into onceward.webhook_events (id, webhook_id, event_id, provider, type, payload, raw, headers, status, attempts,
    origin)
select gen_random_uuid(), 'aaaaaaaa-0000-4000-8000-000000000000', 'evt_' || md5(n::text), 'stripe', 'charge.succeeded',
       '{"id": "evt", "type": "charge.succeeded", "data": {"object": {"amount": 4200}}}',
       '\\x7b7d', '{}', 'success', 1, 'http'
  from generate_series($1::bigint, $2::bigint) n
"""


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


def _of_size(kind: str) -> Callable[[Database, Sides, Size], Awaitable[list[Measurement]]]:
    """Return the measure of bodies of a real size, beside FastAPI and the limit: the same bytes by COPY, committed as
    often.
    """

    async def measure(db: Database, sides: Sides, size: Size) -> list[Measurement]:
        most = int(sides.for_s * MOST_LARGE_PER_S[kind])

        def rate(which: str) -> Side:
            return lambda: sides.rate(which, body=kind, prepared=most)

        baselines: list[tuple[str, Side]] = [(COPIED, lambda: _copy(db, kind, sides.for_s))]
        if _has_sqlalchemy():
            baselines.insert(0, (FASTAPI, rate(FASTAPI_SERVER)))
        return [
            await compare(
                "ingest",
                f"ack-{kind}",
                rate("ours"),
                unit="requests/s",
                baseline=baseline,
                theirs=theirs,
                turns=size.turns(),
            )
            for baseline, theirs in baselines
        ]

    return measure


async def _copy(db: Database, kind: str, for_s: float) -> float:
    before, after = template(kind, "charge.succeeded", int(time.time()))
    await db.execute(BODIES)
    async with db.acquire() as conn:

        async def once() -> int:
            bodies = [(b"%b%024x%b" % (before, number, after),) for number in range(COPIED_TOGETHER)]
            await conn.copy_records_to_table("bodies", schema_name="onceward_bench", columns=["body"], records=bodies)
            return COPIED_TOGETHER

        return await measured_rate([once], for_s=for_s)


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
    path = "/webhooks/inline"

    def ours() -> Awaitable[float]:
        return sides.rate("ours", path=path)

    bare = await compare(
        "ingest",
        "inline",
        ours,
        unit="requests/s",
        baseline=f"the same statements in pgbench, {INLINE_CLIENTS} clients",
        theirs=lambda: pgbench(sides.url, INLINE, clients=INLINE_CLIENTS, for_s=sides.for_s, protocol="simple"),
        turns=size.turns(),
    )
    unshared = await compare(
        "ingest",
        "inline",
        ours,
        unit="requests/s",
        baseline=UNSHARED,
        theirs=lambda: sides.rate(UNSHARED, path=path),
        turns=size.turns(),
    )
    return [await _against_fastapi("inline", ours, sides, size, path=path), bare, unshared]


async def _end_to_end(db: Database, sides: Sides, size: Size) -> list[Measurement]:
    return await end_to_end(db, sides.url, size)


async def _families(_db: Database, sides: Sides, size: Size) -> list[Measurement]:
    return await measure_families(sides, size)


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


async def _against_fastapi(case: str, ours: Any, sides: Sides, size: Size, *, path: str) -> Measurement:
    if not _has_sqlalchemy():
        return await compare("ingest", case, ours, unit="requests/s", turns=size.turns())
    return await compare(
        "ingest",
        case,
        ours,
        unit="requests/s",
        baseline=FASTAPI,
        theirs=lambda: sides.rate(FASTAPI_SERVER, path=path),
        turns=size.turns(),
    )


def _has_sqlalchemy() -> bool:
    return all(importlib.util.find_spec(name) is not None for name in ("sqlalchemy", "greenlet"))


MEASURES = {
    "ack": _ack,
    "ack-2k": _of_size("2k"),
    "ack-20k": _of_size("20k"),
    "duplicate": _duplicate,
    "inline": _inline,
    "end-to-end": _end_to_end,
    "ack-families": _families,
    "ack-history": _history,
}
