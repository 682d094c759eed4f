"""The app under test. One webhook causes one effect of every kind; each effect is a row, or a call to the sink."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import Any

import aiohttp

from onceward import Event, Job, LimitReached, Onceward, Permanent, Run, Step, Tx, Workflow
from onceward.capacity import CapacityRefused, Want, claim
from onceward.ledger import Entry
from onceward.live import Query

HERE = Path(__file__).parent
ORGANIZATION = "chaos"
POOL, CAPACITY = "seats", 200
LANE_LIMIT, SLOTS = 2, 3
LANE_LENGTH = 3
EVENT_TYPE = "order.paid"

app = Onceward("chaos", migrations=HERE / "migrations")
app.templates(HERE / "templates")
app.event_type(EVENT_TYPE, sample={"n": 1}, description="An order was paid.")


async def effect(tx: Tx, kind: str, ref: int, *, position: int = 0, since: int | None = None) -> None:
    await tx.execute(
        "insert into chaos.effects (kind, ref, position, started) values ($1, $2, $3, $4)",
        kind,
        ref,
        position,
        since,
    )


async def call_sink(kind: str, ref: int, key: str) -> None:
    """Call the outside service, which remembers the key."""
    body = {"kind": kind, "ref": ref, "key": key}
    timeout = aiohttp.ClientTimeout(total=10)
    async with aiohttp.ClientSession(timeout=timeout) as session:
        async with session.post(f"{os.environ['CHAOS_SINK']}/call", json=body) as answer:
            answer.raise_for_status()


@app.on("stripe", "charge.succeeded", retry=[1] * 20)
async def place_order(event: Event[Any], tx: Tx) -> dict[str, int]:
    n = int(event.event_id.rpartition("_")[2])
    await effect(tx, "event", n)
    await tx.post([Entry("cash", "revenue", n + 1, "EUR")], key=f"sale:{n}")
    await tx.enqueue_many([pack.call(n=n), notify.call(n=n), index.call(n=n)])
    await tx.enqueue(limited.in_lane("api", limit=LANE_LIMIT), n=n)
    for position in range(LANE_LENGTH):
        await tx.enqueue(ordered.in_order(f"order:{n}"), n=n, position=position)
    if is_poisoned(n):
        await tx.enqueue(poisoned, n=n)
    await tx.start_workflow(trip.unique(f"trip:{n}"), n=n)
    await tx.send("receipt", to="chaos@example.org", key=f"receipt:{n}", data={"n": n})
    await tx.publish(EVENT_TYPE, {"n": n}, key=f"paid:{n}", url=f"{os.environ['CHAOS_SINK']}/hook")
    return {"n": n}


@app.job(retry=[1] * 20)
async def pack(tx: Tx, *, n: int) -> None:
    """Take a seat, and one of the slots for `generate`, if there are free ones."""
    await effect(tx, "job", n)
    try:
        await claim(tx, [Want(POOL)], holder=f"order:{n}", until=None)
        await effect(tx, "seat", n)
    except CapacityRefused:
        await effect(tx, "sold_out", n)
    try:
        async with tx.savepoint("slot"):
            job = await tx.enqueue(generate, n=n)
            await tx.reserve(job, key="user:chaos", at_most=SLOTS, everywhere=False)
            await effect(tx, "slot_taken", n)
    except LimitReached:
        await effect(tx, "slot_refused", n)


@app.job(retry=[1] * 20)
async def generate(tx: Tx, *, n: int) -> None:
    await effect(tx, "slot_freed", n)


def is_poisoned(n: int) -> bool:
    return n % 7 == 5


@app.job(retry=[0.1])
async def poisoned(*, n: int) -> None:
    """A handler with a mistake that must hurt nobody else: it ends the process, or leaks a cancellation."""
    if n % 2:
        sys.exit(3)
    raise asyncio.CancelledError


@app.job(outside=True, retry=[1] * 20)
async def notify(job: Job, *, n: int) -> None:
    await call_sink("notify", n, job.key("notify"))


@app.job(batch=10, retry=[1] * 20)
async def index(jobs: list[Job], tx: Tx) -> None:
    for job in jobs:
        await effect(tx, "batch", job.args["n"])


@app.job(retry=[1] * 20)
async def limited(tx: Tx, *, n: int) -> None:
    since = await tx.fetchval("select nextval('chaos.effects_id_seq')")
    await tx.execute("select pg_sleep(0.005)")
    await effect(tx, "limited", n, since=since)


@app.job(retry=[1] * 20)
async def ordered(tx: Tx, *, n: int, position: int) -> None:
    await effect(tx, "ordered", n, position=position)


async def reserve(tx: Tx, n: int) -> None:
    await effect(tx, "reserved", n)


async def undo_reserve(tx: Tx, n: int) -> None:
    await effect(tx, "undone", n)


async def charge(step: Step, n: int) -> None:
    await call_sink("charge", n, step.idempotency_key)


async def refuse(tx: Tx, n: int) -> None:
    raise Permanent("every third trip is refused")


def is_refused(n: int) -> bool:
    return n % 3 == 0


@app.workflow
async def trip(wf: Workflow, *, n: int) -> None:
    await wf.compensate(undo_reserve, n)
    await wf.step(reserve, n)
    await wf.options(retry=[1] * 20).step(charge, n)
    if is_refused(n):
        await wf.step(refuse, n)
    await wf.sleep(1)


@app.every(5, missed="skip", overlap="allow")
async def tick(run: Run) -> None:
    await run.each([int(run.due_at.timestamp())], record_tick, key=str)


async def record_tick(due_s: int, tx: Tx) -> None:
    await effect(tx, "tick", due_s)


@app.query(allow="anyone")
async def total(q: Query) -> int:
    q.watch("chaos.effects", kind="event")
    return await q.fetchval("select count(*) from chaos.effects where kind = 'event'")
