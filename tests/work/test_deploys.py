"""While a deploy rolls, workers with two versions of the code run side by side. Nothing is lost, doubled or buried."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from onceward import Engine, Onceward, Tx
from onceward.db import Database
from onceward.testing import until
from onceward.work import forms


def old_version() -> Onceward:
    app = Onceward("shop")

    @app.job
    async def greet(tx: Tx, *, name: str) -> None:
        await tx.execute("insert into effects values ('old', $1)", name)

    return app


def new_version() -> Onceward:
    app = Onceward("shop")

    @app.job
    async def greet(tx: Tx, *, name: str, style: str = "plain") -> None:
        await tx.execute("insert into effects values ('new', $1)", f"{name} {style}")

    @app.job
    async def wave(tx: Tx, *, name: str) -> None:
        await tx.execute("insert into effects values ('new', $1)", f"wave {name}")

    return app


@pytest.fixture
async def effects(db: Database, monkeypatch: pytest.MonkeyPatch) -> Database:
    monkeypatch.setattr(forms, "OTHER_VERSION_S", 0.05)
    await db.execute("create table effects (version text, what text); grant all on effects to onceward_app")
    return db


async def left(db: Database, wanted: int, *, dead: bool = False) -> None:
    question = "select count(*) from onceward.work where (dead_reason is not null) = $1"
    async with asyncio.timeout(20):
        while await db.fetchval(question, dead) != wanted:
            await asyncio.sleep(0.02)


async def put(engine: Engine, task: str, arguments: dict[str, Any]) -> None:
    await engine.db.fetchval("select onceward.enqueue($1, $2)", task, arguments)


async def test_two_versions_side_by_side_run_each_job_once_where_it_fits(bench, effects: Database) -> None:
    old, new = await bench(old_version()), await bench(new_version())
    await old.start_worker()
    await new.start_worker()
    for n in range(40):
        await put(new.engine, "greet", {"name": f"{n}", "style": "loud"})
        await put(old.engine, "greet", {"name": f"old {n}"})
        await put(new.engine, "wave", {"name": f"{n}"})
    await left(effects, 0)
    rows = {row["what"].removesuffix(" plain"): row["version"] for row in await effects.fetch("select * from effects")}
    assert await effects.fetchval("select count(*) from effects") == len(rows) == 120
    assert all(rows[f"{n} loud"] == rows[f"wave {n}"] == "new" for n in range(40))
    assert {f"old {n}" for n in range(40)} < rows.keys()
    counted = "select count(*) from onceward.attempts where outcome not in ('success', 'snoozed')"
    assert await effects.fetchval(counted) == 0


async def test_jobs_with_a_new_argument_wait_visibly_for_the_first_new_worker(bench, effects: Database) -> None:
    old = await bench(old_version())
    await old.start_worker()
    for n in range(20):
        await put(old.engine, "greet", {"name": f"{n}", "style": "loud"})
    unserved = "select queue, task from onceward.unserved where reason = 'no_version'"
    assert await until(lambda: effects.fetch(unserved)) == [("default", "greet")]
    tried = "select count(distinct work_id) = 20 from onceward.attempts where outcome = 'snoozed'"
    await until(lambda: effects.fetchval(tried))
    await left(effects, 20)
    new = await bench(new_version())
    await new.start_worker()
    await left(effects, 0)
    assert await effects.fetchval("select count(*) from effects where version = 'new'") == 20
    counted = "select count(*) from onceward.attempts where outcome not in ('success', 'snoozed')"
    assert await effects.fetchval(counted) == 0


async def test_what_fits_no_version_is_a_dead_letter_after_an_hour(bench, effects: Database) -> None:
    old = await bench(old_version())
    await old.start_worker()
    await put(old.engine, "greet", {"nom": "a"})
    await until(lambda: effects.fetchval("select count(*) > 0 from onceward.attempts where outcome = 'snoozed'"))
    assert await effects.fetchval("select count(*) from onceward.work where dead_reason is not null") == 0
    await effects.execute("update onceward.attempts set finished_at = finished_at - interval '61 minutes'")
    await effects.execute("update onceward.work set sort_at = now() where lease is null")
    await left(effects, 1, dead=True)
    assert await effects.fetchval("select dead_reason from onceward.work") == "payload_invalid"


def test_versions_are_distinguished_by_the_arguments_they_accept() -> None:
    """For an event's handler that is its model; a type that no schema can describe looks the same everywhere."""
    from pydantic import BaseModel

    from onceward.work.forms import digest

    class Booking(BaseModel):
        uid: str

    class Renamed(BaseModel):
        uid: str
        attendee: str

    assert digest(Booking.model_json_schema) != digest(Renamed.model_json_schema)
    assert digest(Booking.model_json_schema) == digest(Booking.model_json_schema)

    def broken() -> dict[str, Any]:
        raise TypeError("no schema")

    assert digest(broken) == ""
