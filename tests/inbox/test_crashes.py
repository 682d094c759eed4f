"""A crash at any gate, and a sender that tries again: the end is the same as without the crash."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

import orjson
import pytest

from onceward import Event, Onceward, Tx
from onceward.db import Database, migrate
from onceward.db.embedded import EmbeddedPostgres
from onceward.runtime import FEATURES
from onceward.testing import Crash, drain, give_back
from onceward.work import gate
from tests.inbox.conftest import Office

EFFECTS = "create table effects (event text, what text); grant all on effects to onceward_app"
BODY = orjson.dumps({"id": "evt_crash", "type": "t", "data": {"object": {"amount": 3}}})


def shop() -> Onceward:
    app = Onceward("crashing")

    @app.job
    async def follow_up(tx: Tx, *, event: str) -> None:
        await tx.execute("insert into effects values ($1, 'follow-up')", event)

    @app.on("stripe", "t")
    async def complete(event: Event, tx: Tx) -> dict[str, int]:
        await tx.execute("insert into effects values ($1, 'sale')", event.event_id)
        await tx.enqueue(follow_up, event=event.event_id)
        return {"amount": event.data["amount"]}

    return app


class CrashAt:
    """Raises at the n-th gate that is passed, once."""

    def __init__(self, number: int | None) -> None:
        self.number = number
        self.passed: list[str] = []

    def __call__(self, name: str) -> None:
        self.passed.append(name)
        if len(self.passed) == self.number:
            raise Crash(name)


async def deliver(here: Office, name: str) -> None:
    """Post as a sender does: again until the answer is 2xx. A crash of the server gives no answer."""
    for _ in range(5):
        try:
            reply = await here.send(BODY, name=name)
        except Crash:
            continue
        if reply.status == 200:
            return
    raise AssertionError("never delivered")


async def finish(here: Office) -> None:
    for _ in range(5):
        try:
            await drain(here.engine)
            return
        except Crash:
            await give_back(here.engine)
    raise AssertionError("never finished")


async def observe(db: Database) -> object:
    effects = await db.fetch("select event, what from effects order by what")
    events = await db.fetch("select event_id, status, result from onceward.webhook_events")
    left = await db.fetchval("select count(*) from onceward.work")
    return [tuple(row) for row in effects], [tuple(row) for row in events], left


@pytest.mark.parametrize("name", ["stripe", "inline"])
async def test_a_crash_at_any_gate_redelivered_equals_the_undisturbed_run(db: Database, name: str) -> None:
    here = Office(db, shop())
    await db.execute(EFFECTS)
    await here.source()
    await here.source("inline", provider="stripe", mode="inline")
    await here.inbox.catalog.refresh()

    async def run(crash_at: int | None) -> tuple[list[str], object]:
        await db.execute(
            "truncate effects, onceward.work, onceward.webhook_events, onceward.jobs, onceward.attempts, onceward.claims"
        )
        hook = CrashAt(crash_at)
        gate.hook = hook
        try:
            await deliver(here, name)
            await finish(here)
        finally:
            gate.hook = None
        return hook.passed, await observe(db)

    gates, expected = await run(None)
    assert expected == (
        [("evt_crash", "follow-up"), ("evt_crash", "sale")],
        [("evt_crash", "success", {"amount": 3})],
        0,
    )
    assert len(gates) >= 4, gates
    inline = {"inline-inserted", "inline-before-commit", "inline-after-commit"}
    assert (inline if name == "inline" else {"ack-verified", "ack-committed"}) <= set(gates)
    for number in range(1, len(gates) + 1):
        _, seen = await run(number)
        assert seen == expected, f"a crash at gate {number} ({gates[number - 1]}) changed the result"


@pytest.mark.timeout(120)
async def test_database_stopped_mid_load_gives_503s_and_loses_nothing_that_was_acknowledged() -> None:
    with tempfile.TemporaryDirectory(prefix="onceward-stop-") as directory:
        server = EmbeddedPostgres(Path(directory) / "data")
        url = await asyncio.to_thread(server.start)
        try:
            db = await Database.open(url, min_size=1, max_size=10)
            async with db.acquire() as conn:
                await migrate(conn, FEATURES.migrations)
            here = Office(db, Onceward("load"))
            await here.source()
            statuses: list[int] = []
            acknowledged: set[str] = set()
            stop = asyncio.Event()

            async def sender(number: int) -> None:
                count = 0
                while not stop.is_set():
                    count += 1
                    id = f"evt_{number}_{count}"
                    reply = await here.send(orjson.dumps({"id": id, "type": "t"}))
                    statuses.append(reply.status)
                    if reply.status == 200:
                        acknowledged.add(id)
                    else:
                        assert (reply.status, "retry-after" in reply.headers) == (503, True)
                        await asyncio.sleep(0.01)

            async def reached(status: int, more: int) -> None:
                wanted = statuses.count(status) + more
                async with asyncio.timeout(60):
                    while statuses.count(status) < wanted:
                        await asyncio.sleep(0.01)

            senders = [asyncio.create_task(sender(number)) for number in range(16)]
            await reached(200, 200)
            await asyncio.to_thread(server.stop)
            await reached(503, 50)
            await asyncio.to_thread(server.start)
            await reached(200, 200)
            stop.set()
            await asyncio.gather(*senders)
            stored = {row["event_id"] for row in await db.fetch("select event_id from onceward.webhook_events")}
            assert acknowledged <= stored
            assert await db.fetchval("select count(*) from onceward.work") == len(stored)
            await db.close()
        finally:
            await asyncio.to_thread(server.stop)
