"""After a replay the numbers of an event's attempts continue, and its own count starts again, however it is acknowledged."""

from __future__ import annotations

from typing import Any

import asyncpg
import pytest

from onceward import Engine, Event, Onceward, Tx
from onceward.inbox.event_search import EventFilter
from onceward.inbox.replay import replay
from onceward.testing import TestInbox, drain
from onceward.work import dead_letters
from onceward.work.dead_letters import DeadLetterFilter
from onceward.work.sqlstates import LOST_LEASE


class Switch:
    """Whether the handlers work."""

    def __init__(self) -> None:
        self.on = False

    def check(self) -> None:
        if not self.on:
            raise RuntimeError("not yet")


def reading_app(switch: Switch) -> Onceward:
    app = Onceward("meter")

    @app.on("standard", "alone", retry=[])
    async def alone(event: Event[Any]) -> None:
        switch.check()

    @app.on("standard", "single", retry=[])
    async def single(event: Event[Any], tx: Tx) -> str:
        switch.check()
        return "stored"

    @app.on("standard", "batch", batch=5, retry=[])
    async def batch(events: list[Event[Any]], tx: Tx) -> None:
        switch.check()

    return app


@pytest.mark.parametrize("type", ["alone", "single", "batch"])
async def test_attempts_of_a_replayed_event_continue_and_its_count_starts_again(db, type: str) -> None:
    switch = Switch()
    app = reading_app(switch)
    engine = Engine(db, app.registry)
    async with TestInbox(engine, app) as inbox:
        await inbox.add_source("standard")
        assert (await inbox.post({"type": type, "data": {}}, source="standard", event_id="e-1")).status == 200
        id = await db.fetchval("select id from onceward.work")
        for _ in range(2):
            await drain(engine)
            await dead_letters.replay(db, DeadLetterFilter(ids=[id]), actor="anna", reason="try")
        switch.on = True
        await drain(engine)
    rows = await db.fetch("select number, outcome from onceward.attempts where work_id = $1 order by finished_at", id)
    assert [tuple(row) for row in rows] == [(1, "dead_letter"), (2, "dead_letter"), (3, "success")]
    [event] = await db.fetch("select status, attempts, result, error from onceward.webhook_events")
    assert tuple(event) == ("success", 1, "stored" if type == "single" else None, None)
    assert await db.fetchval("select count(*) from onceward.work") == 0


async def test_an_event_is_not_acknowledged_under_a_lost_lease(db) -> None:
    app = reading_app(Switch())
    engine = Engine(db, app.registry)
    async with TestInbox(engine, app) as inbox:
        await inbox.add_source("standard")
        await inbox.post({"type": "single", "data": {}}, source="standard", event_id="e-1")
    id = await db.fetchval("update onceward.work set lease = 5, claimed_at = now() returning id")
    with pytest.raises(asyncpg.PostgresError) as error:
        await db.execute(f"call onceward.succeed_event({id}, 6, 1, now(), null)")
    assert error.value.sqlstate == LOST_LEASE
    assert await db.fetchval("select status from onceward.webhook_events") == "pending"
    assert await db.fetchval("select count(*) from onceward.attempts") == 0


@pytest.mark.parametrize("how", ["replay command", "update"])
async def test_attempts_continue_when_the_event_itself_is_replayed(db, how: str) -> None:
    switch = Switch()
    app = reading_app(switch)
    engine = Engine(db, app.registry)
    async with TestInbox(engine, app) as inbox:
        await inbox.add_source("standard")
        await inbox.post({"type": "single", "data": {}}, source="standard", event_id="e-1")
        id = await db.fetchval("select id from onceward.work")
        await db.execute(
            "insert into onceward.workers (id, name, version, queues, tasks) values (1, 't', '1', '{events}', '{standard/single}')"
        )
        for _ in range(2):
            await drain(engine)
            if how == "update":
                await db.execute("update onceward.webhook_events set status = 'pending'")
            else:
                await replay(db, EventFilter(event_ids=["e-1"]), actor="anna", reason="try")
        switch.on = True
        await drain(engine)
    rows = await db.fetch("select number, outcome from onceward.attempts where work_id = $1 order by number", id)
    assert [tuple(row) for row in rows] == [(1, "dead_letter"), (2, "dead_letter"), (3, "success")]
