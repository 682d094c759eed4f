"""Several apps handle events of one provider. A source names the app whose handlers get its events."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import orjson
import pytest

from onceward import Event, Onceward, Tx
from onceward.db import Database
from onceward.inbox import environment
from onceward.inbox.catalog import Catalog
from onceward.inbox.environment import read
from onceward.inbox.event_search import EventFilter
from onceward.inbox.replay import replay
from onceward.inbox.sources import assign
from onceward.testing import until
from onceward.webhooks.provider import ConfigError
from tests.inbox.conftest import Office, office

__all__ = ["office"]

MakeOffice = Callable[[Onceward], Awaitable[Office]]
TYPE = "charge.succeeded"


def body(event_id: str, type: str = TYPE) -> bytes:
    return orjson.dumps({"id": event_id, "type": type, "data": {"object": {"id": "ch_1"}}})


def app_of(name: str, *, follows: bool = False) -> Onceward:
    app = Onceward(name)

    @app.on("stripe", TYPE)
    async def paid(event: Event[Any], tx: Tx) -> str:
        await tx.execute("insert into effects values ($1, $2)", event.event_id, name)
        return name

    if follows:

        @app.on("stripe", TYPE, as_job=True)
        async def thank(event: Event[Any], tx: Tx) -> None:
            await tx.execute("insert into effects values ($1, $2)", event.event_id, f"{name} thanks")

    return app


def both() -> Onceward:
    whole = Onceward("whole")
    whole.include(app_of("clinic", follows=True))
    whole.include(app_of("learning"))
    return whole


@pytest.fixture
async def effects(db: Database) -> Callable[[], Awaitable[list[tuple[str, str]]]]:
    await db.execute("create table effects (event text, handler text); grant all on effects to onceward_app")

    async def read() -> list[tuple[str, str]]:
        return [tuple(row) for row in await db.fetch("select event, handler from effects order by 1, 2")]

    return read


async def test_each_app_gets_the_events_of_its_sources(
    office: MakeOffice, effects: Callable[[], Awaitable[list[tuple[str, str]]]]
) -> None:
    here = await office(both())
    await here.source("clinic-stripe", provider="stripe", app="clinic")
    await here.source("school-stripe", provider="stripe", app="learning", mode="inline")
    first = await here.send(body("evt_1"), name="clinic-stripe")
    second = await here.send(body("evt_2"), name="school-stripe")
    assert (first.status, second.json) == (200, {"status": "ok", "result": "learning"})
    await here.start_worker()
    assert (await here.status(first.json["id"], "success"))["result"] == "clinic"
    expected = [("evt_1", "clinic"), ("evt_1", "clinic thanks"), ("evt_2", "learning")]

    async def complete() -> bool:
        return await effects() == expected

    await until(complete)


async def test_events_that_arrive_before_a_worker_and_replays_go_to_the_same_app(
    office: MakeOffice, effects: Callable[[], Awaitable[list[tuple[str, str]]]]
) -> None:
    web = await office(Onceward("receives_only"))
    await web.source("clinic-stripe", provider="stripe", app="clinic")
    reply = await web.send(body("evt_1"), name="clinic-stripe")
    assert await web.db.fetchval("select task from onceward.work") == f"clinic:stripe/{TYPE}"
    workers = await office(both())
    await workers.start_worker()
    await web.status(reply.json["id"], "success")
    copy = await replay(web.db, EventFilter(ids=[reply.json["id"]]), actor="test", reason="again", as_new=True)
    await web.status(copy.done[0], "success")
    assert {handler for _, handler in await effects() if "thanks" not in handler} == {"clinic"}


async def test_a_source_of_one_app_never_reaches_the_handler_of_another(office: MakeOffice) -> None:
    here = await office(app_of("clinic"))
    await here.source("school-stripe", provider="stripe", app="learning")
    await here.send(body("evt_1"), name="school-stripe")
    assert await here.db.fetchrow("select queue, task from onceward.work") == ("unhandled", f"learning:stripe/{TYPE}")


async def test_one_app_serves_sources_that_name_none(
    office: MakeOffice, effects: Callable[[], Awaitable[list[tuple[str, str]]]]
) -> None:
    whole = Onceward("whole")
    whole.include(app_of("clinic"))
    here = await office(whole)
    await here.source("stripe", mode="inline")
    reply = await here.send(body("evt_1"))
    assert reply.json["result"] == "clinic"
    assert await effects() == [("evt_1", "clinic")]


async def test_a_source_without_an_app_that_two_apps_handle_is_an_error_at_start(
    db: Database, office: MakeOffice
) -> None:
    earlier = await office(app_of("clinic"))
    await earlier.source("stripe")
    await earlier.source("told", provider="stripe", app="learning")
    later = Office(db, both())
    with pytest.raises(ConfigError) as told:
        await later.start()
    await later.stop()
    assert str(told.value) == (
        f"source 'stripe': the apps clinic and learning handle stripe events of type {TYPE}, and the source names none of"
        " them: run `onceward sources assign stripe clinic`, or set ONCEWARD_SOURCE_STRIPE_APP=clinic if the source comes"
        " from the environment"
    )
    async with db.transaction(role="engine") as tx:
        await assign(tx, "stripe", "learning", actor="test")
    third = await office(both())
    assert third.inbox.catalog.handles(third.inbox.catalog.get("stripe"), TYPE) == f"learning:stripe/{TYPE}"  # pyright: ignore[reportArgumentType]


async def test_assigning_moves_waiting_events_to_the_app(
    office: MakeOffice, effects: Callable[[], Awaitable[list[tuple[str, str]]]]
) -> None:
    web = await office(Onceward("receives_only"))
    await web.source("stripe")
    reply = await web.send(body("evt_1"))
    async with web.db.transaction(role="engine") as tx:
        assert (await assign(tx, "stripe", "learning", actor="test")).app == "learning"
    workers = await office(both())
    await workers.start_worker()
    assert (await web.status(reply.json["id"], "success"))["result"] == "learning"
    audit = await web.db.fetchrow("select action, changes from onceward.audit_log where action = 'source.assigned'")
    assert audit["changes"] == {"app": "learning", "before": None}


@pytest.mark.parametrize("app", ["", "Clinic", "a b", "a:b", "x" * 64])
async def test_a_wrong_app_is_refused_by_name(office: MakeOffice, app: str) -> None:
    here = await office(both())
    with pytest.raises(ConfigError, match=r"app .* must be 1-63"):
        await here.source("one", provider="stripe", app=app)
    await here.source("two", provider="stripe", app="clinic")
    async with here.db.transaction(role="engine") as tx:
        with pytest.raises(ConfigError, match=r"app .* must be 1-63"):
            await assign(tx, "two", app, actor="test")


async def test_the_environment_names_the_app(db: Database) -> None:
    environ = {"ONCEWARD_SOURCE_STRIPE_SECRET": "whsec_x", "ONCEWARD_SOURCE_STRIPE_APP": "clinic"}
    catalog = Catalog(db, None, declared=environment.read(environ))
    await catalog.declare()
    await catalog.refresh()
    source = catalog.get("stripe")
    assert source is not None
    assert source.app == "clinic"
    async with db.transaction(role="engine") as tx:
        with pytest.raises(ConfigError, match="set ONCEWARD_SOURCE_STRIPE_APP there"):
            await assign(tx, "stripe", "learning", actor="test")
    with pytest.raises(ConfigError, match="ONCEWARD_SOURCE_STRIPE_APP='A B' is not the name of an app"):
        read({"ONCEWARD_SOURCE_STRIPE_APP": "A B"})


def test_one_source_with_handlers_of_two_apps_is_an_error() -> None:
    whole = Onceward("whole")
    for name in ("a", "b"):
        app = Onceward(name)

        @app.on("our-stripe", TYPE)
        async def paid(event: Event[Any]) -> None: ...

        if name == "a":
            whole.include(app)
        else:
            with pytest.raises(ValueError, match=r"our-stripe/charge\.succeeded has two handlers"):
                whole.include(app)
