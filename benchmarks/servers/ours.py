"""The shipped inbox behind the shipped dispatcher, without a worker, which is another process: `python -m
benchmarks.servers.ours URL`.
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import uvloop

from benchmarks import families
from benchmarks.measure import is_unshared
from benchmarks.servers import SECRET
from benchmarks.servers.empty import app as nothing
from onceward import Engine, Event, Onceward, Tx
from onceward.cli.session import spare_collector
from onceward.db import Database
from onceward.inbox import Inbox
from onceward.web import Dispatcher
from onceward.web.asgi import Mount
from onceward.work import Worker, WorkerOptions
from onceward.work.metrics import count

ENVIRON = {
    "ONCEWARD_SOURCE_STRIPE_SECRET": SECRET,
    "ONCEWARD_SOURCE_QUIET_SECRET": SECRET,
    "ONCEWARD_SOURCE_QUIET_PROVIDER": "stripe",
    "ONCEWARD_SOURCE_INLINE_SECRET": SECRET,
    "ONCEWARD_SOURCE_INLINE_PROVIDER": "stripe",
    "ONCEWARD_SOURCE_INLINE_MODE": "inline",
    **families.environment(),
}

app = Onceward("bench")


@app.on("stripe", "charge.succeeded")
async def handle(event: Event[Any], tx: Tx) -> dict[str, bool]:
    await tx.execute("insert into onceward_bench.effects (event_id) values ($1)", event.event_id)
    return {"done": True}


@app.on("stripe", "charge.batched", batch=25)
async def handle_together(events: list[Event[Any]], tx: Tx) -> None:
    await tx.execute(
        "insert into onceward_bench.effects (event_id) select unnest($1::text[])", [event.event_id for event in events]
    )


OWN: list[Database] = []
"""The database of the handler that gets no transaction."""


@app.on("stripe", "charge.alone")
async def handle_alone(event: Event[Any]) -> None:
    """Without a transaction a handler may run twice, so its effect has a key."""
    await OWN[0].execute(
        "insert into onceward_bench.effects_once (event_id) values ($1) on conflict do nothing", event.event_id
    )


async def make(url: str) -> Any:
    db = await Database.open(url, min_size=4, max_size=20)
    engine = Engine(db, app.registry)
    await engine.start()
    inbox = Inbox(
        db,
        app.registry,
        app.handlers,
        engine.waker,
        open_tx=engine.open_tx,
        environ=ENVIRON,
        shares_inline=not is_unshared(),
    )
    await inbox.start()
    dispatcher = Dispatcher(nothing)
    dispatcher.mount(Mount("/webhooks", inbox.receiver, direct=inbox.receiver.direct))
    return dispatcher


async def work(url: str) -> None:
    """Handle events until the process is stopped."""
    db = await Database.open(url, min_size=4, max_size=20)
    OWN[:] = [db]
    engine = Engine(db, app.registry)
    await engine.start()
    options = WorkerOptions(unshared_queues=("events",) if is_unshared() else ())
    worker = Worker(db, app.registry, engine.waker, options=options, open_tx=engine.open_tx, count=count)
    spare_collector()
    await worker.start()
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    await asyncio.Event().wait()


if __name__ == "__main__":
    uvloop.run(work(sys.argv[1]))
