"""The app under load, second release: orders have a title."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import aiohttp

from onceward import Event, Job, Onceward, Tx

HERE = Path(__file__).parent
RELEASE = 2
ORDER = "insert into shop.orders (n, title) values ($1, 'order')"

app = Onceward("shop", migrations=HERE / "migrations", functions=HERE / "functions")


@app.on("stripe", "charge.succeeded", retry=[1] * 20)
async def place_order(event: Event[Any], tx: Tx) -> dict[str, int]:
    n = int(event.event_id.rpartition("_")[2])
    await tx.execute("select shop.note_effect('event', $1, $2)", n, RELEASE)
    await tx.execute(ORDER, n)
    await tx.enqueue_many([pack.call(n=n), notify.call(n=n), index.call(n=n)])
    return {"n": n}


@app.job(retry=[1] * 20)
async def pack(tx: Tx, *, n: int) -> None:
    await tx.execute("select shop.note_effect('job', $1, $2)", n, RELEASE)


@app.job(batch=10, retry=[1] * 20)
async def index(jobs: list[Job], tx: Tx) -> None:
    for job in jobs:
        await tx.execute("select shop.note_effect('batch', $1, $2)", job.args["n"], RELEASE)


@app.job(outside=True, retry=[1] * 20)
async def notify(job: Job, *, n: int) -> None:
    """Call a service that knows keys."""
    body = {"kind": "notify", "ref": n, "key": job.key("notify")}
    async with aiohttp.ClientSession() as session, session.post(os.environ["UPGRADE_SINK"], json=body) as answer:
        answer.raise_for_status()
