"""The shipped inbox behind the shipped dispatcher, without a worker, which would be another process."""

from __future__ import annotations

from typing import Any

from benchmarks.servers import SECRET
from benchmarks.servers.empty import app as nothing
from onceward import Engine, Event, Onceward, Tx
from onceward.db import Database
from onceward.inbox import Inbox
from onceward.web import Dispatcher
from onceward.web.asgi import Mount

ENVIRON = {
    "ONCEWARD_SOURCE_STRIPE_SECRET": SECRET,
    "ONCEWARD_SOURCE_INLINE_SECRET": SECRET,
    "ONCEWARD_SOURCE_INLINE_PROVIDER": "stripe",
    "ONCEWARD_SOURCE_INLINE_MODE": "inline",
}

app = Onceward("bench")


@app.on("stripe", "charge.succeeded")
async def handle(event: Event[Any], tx: Tx) -> dict[str, bool]:
    await tx.execute("insert into onceward_bench.effects (event_id) values ($1)", event.event_id)
    return {"done": True}


async def make(url: str) -> Any:
    db = await Database.open(url, min_size=4, max_size=20)
    engine = Engine(db, app.registry)
    await engine.start()
    inbox = Inbox(db, app.registry, app.handlers, engine.waker, open_tx=engine.open_tx, environ=ENVIRON)
    await inbox.start()
    dispatcher = Dispatcher(nothing)
    dispatcher.mount(Mount("/webhooks", inbox.receiver, direct=inbox.receiver.direct))
    return dispatcher
