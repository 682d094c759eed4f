"""`app.on(..., batch=n)`: events of one type and organization in one transaction; a bad one fails alone."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel

from onceward import Engine, Event, Onceward, Tx
from onceward.inbox import metrics
from onceward.testing import TestInbox, crash_test, drain, until
from onceward.trust import create_organization


class Reading(BaseModel):
    n: int


def reading_app(*, fails_at: int | None = None, sizes: list[int] | None = None) -> Onceward:
    app = Onceward("meter")

    @app.on("standard", "reading", batch=25, retry=[])
    async def store(events: list[Event[Reading]], tx: Tx) -> None:
        if sizes is not None:
            sizes.append(len(events))
        await tx.executemany("insert into readings values ($1)", [(event.data.n,) for event in events])
        if any(event.data.n == fails_at for event in events):
            raise RuntimeError("this reading cannot be stored")

    return app


async def post(inbox: TestInbox, value: Any, *, source: str = "standard") -> None:
    answer = await inbox.post({"type": "reading", "data": {"n": value}}, source=source, event_id=f"{source}-{value}")
    assert answer.status == 200


@pytest.fixture
async def readings(db) -> Any:
    await db.execute("create table readings (n int); grant all on readings to onceward_app")
    return lambda: db.fetchval("select array_agg(n order by n) from readings")


async def test_events_of_one_type_share_a_transaction(db, readings) -> None:
    sizes: list[int] = []
    app = reading_app(sizes=sizes)
    engine = Engine(db, app.registry)
    async with TestInbox(engine, app) as inbox:
        await inbox.add_source("standard")
        for n in range(30):
            await post(inbox, n)
        assert await drain(engine) == 30
    assert sizes == [25, 5]
    assert await readings() == list(range(30))
    assert await db.fetchval("select count(*) from onceward.webhook_events where status = 'success'") == 30
    assert await db.fetchval("select count(*) from onceward.attempts where outcome = 'success'") == 30


async def test_a_bad_event_becomes_a_dead_letter_alone(db, readings) -> None:
    app = reading_app(fails_at=3)
    engine = Engine(db, app.registry)
    async with TestInbox(engine, app) as inbox:
        await inbox.add_source("standard")
        for n in range(6):
            await post(inbox, n)
        await drain(engine)
    assert await readings() == [0, 1, 2, 4, 5]
    rows = await db.fetch("select event_id, status from onceward.webhook_events where status <> 'success'")
    assert [tuple(row) for row in rows] == [("standard-3", "dead_letter")]


async def test_an_event_whose_payload_is_invalid_leaves_the_batch_and_the_others_stay_together(db, readings) -> None:
    sizes: list[int] = []
    app = reading_app(sizes=sizes)
    engine = Engine(db, app.registry)
    async with TestInbox(engine, app) as inbox:
        await inbox.add_source("standard")
        for value in (1, "many", 2):
            await post(inbox, value)
        await drain(engine)
    assert sizes == [2]
    assert await readings() == [1, 2]
    [row] = await db.fetch("select status, error from onceward.webhook_events where event_id = 'standard-many'")
    assert row["status"] == "dead_letter"
    assert row["error"].startswith("payload_invalid: PayloadInvalid: n:")


async def test_a_batch_holds_events_of_one_organization_only(db, readings) -> None:
    sizes: list[int] = []
    app = reading_app(sizes=sizes)
    engine = Engine(db, app.registry)
    async with db.transaction(role="engine") as tx:
        ours = await create_organization(tx, "ours", actor="test")
    async with TestInbox(engine, app) as inbox:
        await inbox.add_source("standard")
        await inbox.add_source("ours", provider="standard", organization=ours.organization_id)
        for n in range(4):
            await post(inbox, n, source=("standard", "ours")[n % 2])
        await drain(engine)
    assert sizes == [2, 2]


async def test_each_event_of_a_batch_is_counted(db, readings) -> None:
    app = reading_app(fails_at=2)
    engine = Engine(db, app.registry)
    async with TestInbox(engine, app) as inbox:
        id = str(await inbox.add_source("standard"))
        for value in (1, 2, 3, "four"):
            await post(inbox, value)
        await drain(engine)
    counted = {
        sample.labels["result"]: sample.value
        for family in metrics.PROCESSED.collect()
        for sample in family.samples
        if sample.labels.get("webhook_id") == id and sample.name.endswith("_total")
    }
    assert counted == {"success": 2, "error": 2}


async def test_a_crash_at_any_moment_stores_each_event_of_a_batch_once(db, readings) -> None:
    app = reading_app()
    engine = Engine(db, app.registry)
    async with TestInbox(engine, app) as inbox:
        await inbox.add_source("standard")

        async def arrange() -> None:
            for n in range(3):
                await post(inbox, n)

        gates = await crash_test(
            engine,
            arrange=arrange,
            observe=readings,
            reset=lambda: db.execute(
                "truncate readings, onceward.work; truncate onceward.webhook_events cascade; truncate onceward.attempts"
            ),
        )
    assert "before-commit" in gates


async def test_a_worker_counts_and_settles_every_event_of_a_batch(db, readings, office) -> None:
    app = reading_app(fails_at=7)
    here = await office(app)
    async with TestInbox(here.engine, app) as inbox:
        await inbox.add_source("standard")
        for n in range(20):
            await post(inbox, n)
        await here.start_worker(concurrency=2)
        await until(
            lambda: db.fetchval("select count(*) = 20 from onceward.webhook_events where processed_at is not null")
        )
    assert await readings() == [n for n in range(20) if n != 7]


async def test_a_request_runs_its_event_alone_in_a_batch_handler(db, readings) -> None:
    app = reading_app()
    engine = Engine(db, app.registry)
    async with TestInbox(engine, app) as inbox:
        await inbox.add_source("standard", mode="inline")
        await post(inbox, 5)
    assert await readings() == [5]


def test_the_signature_of_a_batch_handler_is_checked() -> None:
    app = Onceward("t")

    async def one(event: Event[Reading], tx: Tx) -> None: ...

    async def many(events: list[Event[Reading]], tx: Tx) -> None: ...

    with pytest.raises(TypeError, match=r"batch is 5, so the handler takes `events: list"):
        app.on("standard", "a", batch=5)(one)
    with pytest.raises(TypeError, match=r"batch is 1, so the handler takes `event: Event"):
        app.on("standard", "a")(many)
    with pytest.raises(TypeError, match="cannot be combined with as_job"):
        app.on("standard", "a", batch=5, as_job=True)(many)
