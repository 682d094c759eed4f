"""Webhooks that two processes receive: stored first and handled later, handled inline, and refused inline."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any
from unittest import mock

from onceward import Event, Onceward, Permanent, Tx
from onceward.db import Database
from onceward.inbox import inline_groups
from onceward.inbox.inline_statements import MOST_LITERAL_BYTES
from onceward.testing import StallScenario, drain
from onceward.webhooks.provider import SourceConfig
from onceward.webhooks.registry import get_provider
from onceward.work import commit_sharing
from tests.inbox.conftest import SECRET, Office
from tests.stalls.tables import everything, reset

app = Onceward("stalled_webhooks")
WITHIN_S = 20.0


@app.on("stripe", "charge.succeeded")
async def paid(event: Event[Any], tx: Tx) -> dict[str, str]:
    await tx.execute("insert into effects (what) values ($1)", f"paid {event.event_id}")
    return {"paid": event.event_id}


@app.on("stripe", "charge.failed")
async def refused(event: Event[Any], tx: Tx) -> None:
    await tx.execute("insert into effects (what) values ('never')")
    raise Permanent("this charge is not ours")


@asynccontextmanager
async def opened(db: Database) -> AsyncGenerator[Office]:
    office = Office(db, app)
    await office.start()
    for name in ("stored", "inline"):
        office.configs[name] = SourceConfig(provider="stripe", secrets=(SECRET,))
        if not await db.fetchval("select exists (select from onceward.sources where name = $1)", name):
            await office.source(name, provider="stripe", mode="inline" if name == "inline" else "ack")
    await office.inbox.catalog.refresh()
    yield office
    await office.stop()


@asynccontextmanager
async def opened_with_one_place(db: Database) -> AsyncGenerator[Office]:
    """Inline requests wait for each other, and share a commit however slow the machine is."""
    changed = {
        inline_groups: {"MOST_PLACES": 1, "PATIENCE_S": WITHIN_S},
        commit_sharing: {"SLOW_S": WITHIN_S, "LONGEST_S": WITHIN_S},
    }
    with contextlib.ExitStack() as stack:
        for module, names in changed.items():
            stack.enter_context(mock.patch.multiple(module, **names))
        async with opened(db) as office:
            yield office


def body_of(type: str, id: str, padding: str = "") -> bytes:
    provider = get_provider("stripe")
    return provider.encode({**provider.sample(type), "id": id, "padding": padding})


async def post(office: Office, name: str, type: str, id: str, padding: str = "") -> None:
    """As the sender does: again until it is answered with something else than "come back later"."""
    async with asyncio.timeout(WITHIN_S):
        while (await office.send(body_of(type, id, padding), name=name)).status >= 500:
            await asyncio.sleep(0.05)


async def post_directly(office: Office, id: str) -> None:
    """Over the short way that the server takes for sources that only store."""
    answered: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    body = body_of("charge.succeeded", id)
    headers = [(name.lower().encode(), value.encode()) for name, value in office.signed("stored", body).items()]

    def reply(status: int, _headers: bytes, _body: bytes) -> None:
        if not answered.done():
            answered.set_result(status)

    assert office.inbox.receiver.direct("/webhooks/stored", headers, body, reply)
    async with asyncio.timeout(WITHIN_S):
        await answered


async def run_stored(office: Office) -> None:
    await post(office, "stored", "charge.succeeded", "evt_stored")
    await post_directly(office, "evt_direct")
    await drain(office.engine)


async def run_inline(office: Office) -> None:
    await post(office, "inline", "charge.succeeded", "evt_inline")
    await drain(office.engine)


async def run_large(office: Office) -> None:
    """A large event never shares a commit."""
    await post(office, "inline", "charge.succeeded", "evt_large", "x" * MOST_LITERAL_BYTES)
    await drain(office.engine)


async def run_together(office: Office) -> None:
    await post(office, "inline", "charge.succeeded", "evt_first")  # now the handler has been measured
    await asyncio.gather(*(post(office, "inline", "charge.succeeded", f"evt_{n}") for n in range(3)))
    await drain(office.engine)


async def run_refused(office: Office) -> None:
    await post(office, "inline", "charge.failed", "evt_refused")
    await drain(office.engine)


async def nothing(_office: Office) -> None:
    """All of it is in the requests."""


async def forget(office: Office) -> None:
    await reset(office.engine)


async def observe(office: Office) -> dict[str, Any]:
    events = await office.db.fetch("select event_id, status, result from onceward.webhook_events order by event_id")
    return await everything(office.engine) | {"events": [tuple(row) for row in events]}


def received(run: Callable[[Office], Awaitable[None]]) -> StallScenario[Office]:
    return StallScenario(open=opened, arrange=nothing, run=run, observe=observe, reset=forget)


event = received(run_stored)
inline = received(run_inline)
inline_large = received(run_large)
inline_together = replace(received(run_together), open=opened_with_one_place)
inline_refused = received(run_refused)
