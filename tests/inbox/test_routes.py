"""The address that a webhook was posted to decides which handler runs: on the short path, on the long path and at a replay."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import orjson
import pytest

from onceward import Event, Onceward, Tx
from onceward.db import Database
from onceward.inbox.event_search import EventFilter
from onceward.inbox.replay import replay
from onceward.testing import until
from onceward.work import Permanent
from tests.inbox.conftest import Office, office
from tests.web.test_protocol import Front, answer

__all__ = ["office"]

MakeOffice = Callable[[Onceward], Awaitable[Office]]
PAYMENTS = "/webhooks/payments/stripe"


def body(event_id: str, type: str = "charge.succeeded") -> bytes:
    return orjson.dumps({"id": event_id, "type": type, "data": {"object": {"id": "ch_1"}}})


def shop(*, refuse: bool = False) -> Onceward:
    app = Onceward("routes")

    @app.on("payments-stripe", "charge.succeeded")
    async def paid(event: Event, tx: Tx) -> dict[str, str]:
        if refuse and event.attempt == 1 and not await tx.fetchval("select exists (select from allowed)"):
            raise Permanent("not yet")
        await tx.execute("insert into effects values ($1, 'payments')", event.event_id)
        return {"source": event.source}

    @app.on("stripe", "charge.succeeded")
    async def general(event: Event, tx: Tx) -> None:
        await tx.execute("insert into effects values ($1, 'general')", event.event_id)

    return app


@pytest.fixture
async def effects(db: Database) -> Callable[[], Awaitable[list[tuple[str, str]]]]:
    await db.execute("create table effects (event text, handler text); grant all on effects to onceward_app")
    await db.execute("create table allowed (); grant all on allowed to onceward_app")

    async def read() -> list[tuple[str, str]]:
        return [tuple(row) for row in await db.fetch("select event, handler from effects order by 1, 2")]

    return read


async def test_a_whole_webhook_on_the_payments_address_runs_the_handler_of_payments(
    office: MakeOffice, effects: Callable[[], Awaitable[list[tuple[str, str]]]]
) -> None:
    here = await office(shop())
    await here.source("stripe")
    front = Front(here)
    await front.web.start()
    try:
        reader, writer = await front.connect()
        writer.write(front.wire(body("evt_1"), path=PAYMENTS))
        status, _, told = await answer(reader)
        assert (status, orjson.loads(told)["status"]) == (200, "ok")
        assert front.taken == 0  # it is handled inside the request, which the short path never does
        writer.write(front.wire(body("evt_2"), path="/webhooks/anything/stripe"))
        status, _, told = await answer(reader)
        assert (status, orjson.loads(told)["reason"]) == (404, "unknown_source")
        writer.write(front.wire(body("evt_3")))
        assert (await answer(reader))[0] == 200
        assert front.taken == 1
        writer.close()
    finally:
        await front.web.stop()
    assert await effects() == [("evt_1", "payments")]
    assert await here.db.fetchval("select count(*) from onceward.webhook_events") == 2


async def test_an_event_that_is_left_to_the_workers_keeps_its_address(
    office: MakeOffice, effects: Callable[[], Awaitable[list[tuple[str, str]]]]
) -> None:
    # The process that receives has no handlers of its own, so nothing can be handled inside the request.
    web = await office(Onceward("receives_only"))
    await web.source("stripe")
    reply = await web.send(body("evt_1"), path=PAYMENTS)
    general = await web.send(body("evt_2"))
    assert (reply.status, general.status) == (200, 200)
    assert await web.db.fetchval("select count(*) from onceward.work where queue = 'unhandled'") == 2
    workers = await office(shop())
    await workers.start_worker()
    await web.status(reply.json["id"], "success")
    await web.status(general.json["id"], "success")
    assert await effects() == [("evt_1", "payments"), ("evt_2", "general")]


async def test_a_replay_runs_the_handler_of_the_address_the_event_came_to(
    office: MakeOffice, effects: Callable[[], Awaitable[list[tuple[str, str]]]]
) -> None:
    here = await office(shop(refuse=True))
    await here.source("stripe")
    reply = await here.send(body("evt_1"), path=PAYMENTS)
    assert reply.status == 400
    seq = reply.json["id"]
    await here.start_worker()
    await here.db.execute("insert into allowed default values")
    again = await replay(here.db, EventFilter(ids=[seq]), actor="test", reason="allowed now")
    assert again.done == [seq]
    await here.status(seq, "success")
    assert await effects() == [("evt_1", "payments")]
    copy = await replay(here.db, EventFilter(ids=[seq]), actor="test", reason="once more", as_new=True)
    await here.status(copy.done[0], "success")
    assert [handler for _, handler in await effects()] == ["payments", "payments"]


async def test_an_event_has_the_same_source_inline_and_in_a_worker(
    office: MakeOffice, effects: Callable[[], Awaitable[list[tuple[str, str]]]]
) -> None:
    here = await office(shop())
    await here.source("stripe")
    inline = await here.send(body("evt_1"), path=PAYMENTS)
    assert inline.json["source"] == "stripe"
    await here.db.execute("update onceward.sources set paused_at = now(), changed_at = clock_timestamp()")
    await here.inbox.catalog.refresh()
    parked = await here.send(body("evt_2"), path=PAYMENTS)
    await here.db.execute("update onceward.sources set paused_at = null, changed_at = clock_timestamp()")
    await here.start_worker()
    row = await here.status(parked.json["id"], "success")
    assert row["result"] == {"source": "stripe"}
    assert await until(effects) == [("evt_1", "payments"), ("evt_2", "payments")]
