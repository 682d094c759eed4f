"""What a duplicate is answered, by how the first one stands."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from onceward import Event, Onceward, Retry, Tx
from onceward.inbox import duplicate_waits
from onceward.testing import until

from .conftest import Office


class Desk:
    """A handler that takes as long as the test wants."""

    def __init__(self) -> None:
        self.app = Onceward("desk")
        self.begun = asyncio.Event()
        self.may_end = asyncio.Event()
        self.calls = 0
        self.fail_first = False

        @self.app.on("stripe", "charge.succeeded", retry=[3600])
        async def handle(event: Event[Any], tx: Tx) -> dict[str, int]:  # pyright: ignore[reportUnusedFunction]
            self.calls += 1
            self.begun.set()
            await self.may_end.wait()
            if self.fail_first and self.calls == 1:
                raise Retry("not yet")
            return {"call": self.calls}


@pytest.fixture
def desk() -> Desk:
    return Desk()


async def test_a_duplicate_of_a_running_event_waits_and_gets_its_result(office, desk: Desk) -> None:
    here: Office = await office(desk.app)
    await here.source()
    await here.start_worker()
    first = await here.post(fields={"id": "evt_1"})
    await desk.begun.wait()
    again = [asyncio.create_task(here.post(fields={"id": "evt_1"})) for _ in range(20)]
    await until(lambda: _waiting(here, 20))
    assert not any(each.done() for each in again)
    desk.may_end.set()
    replies = await asyncio.gather(*again)
    assert first.json["status"] == "accepted"
    assert {(each.status, each.json["status"], each.json["call"]) for each in replies} == {(200, "ok", 1)}
    assert all(each.headers["onceward-duplicate"] == "true" for each in replies)
    assert desk.calls == 1
    assert not await _waiting(here, 1)


async def test_a_duplicate_that_waited_too_long_is_answered_with_retry_after(
    office, desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    here: Office = await office(desk.app)
    await here.source()
    await here.start_worker()
    await here.post(fields={"id": "evt_1"})
    await desk.begun.wait()
    monkeypatch.setattr(duplicate_waits, "WAIT_S", 0.3)
    began = time.monotonic()
    reply = await here.post(fields={"id": "evt_1"})
    assert 0.25 < time.monotonic() - began < 4
    assert (reply.status, reply.headers["retry-after"], reply.headers["onceward-duplicate"]) == (503, "5", "true")
    assert reply.json["reason"] == "still running"
    monkeypatch.setattr(duplicate_waits, "MOST_WAITING", 0)
    monkeypatch.setattr(duplicate_waits, "WAIT_S", 60.0)
    assert (await here.post(fields={"id": "evt_1"})).status == 503, "more than may wait are sent away at once"
    desk.may_end.set()
    seq = await here.db.fetchval("select seq from onceward.webhook_events")
    await here.status(seq, "success")
    assert (await here.post(fields={"id": "evt_1"})).json == {"status": "ok", "call": 1}
    assert desk.calls == 1


async def test_a_duplicate_of_an_event_that_waits_for_a_retry_is_200_at_once(office, desk: Desk) -> None:
    here: Office = await office(desk.app)
    await here.source()
    await here.start_worker()
    desk.fail_first = True
    seq = (await here.post(fields={"id": "evt_1"})).json["id"]
    await desk.begun.wait()
    meanwhile = asyncio.create_task(here.post(fields={"id": "evt_1"}))
    await until(lambda: _waiting(here, 1))
    desk.may_end.set()
    reply = await meanwhile
    assert (reply.status, reply.json) == (200, {"status": "accepted", "id": seq})
    later = await here.post(fields={"id": "evt_1"})
    assert (later.status, later.json) == (200, {"status": "accepted", "id": seq})
    assert desk.calls == 1


async def test_a_duplicate_of_an_event_that_has_not_started_is_200_at_once(office, desk: Desk) -> None:
    here: Office = await office(desk.app)
    await here.source()
    seq = (await here.post(fields={"id": "evt_1"})).json["id"]
    reply = await here.post(fields={"id": "evt_1"})
    assert (reply.status, reply.json) == (200, {"status": "accepted", "id": seq})


async def test_an_inline_duplicate_of_an_event_in_a_worker_waits_for_its_result(office, desk: Desk) -> None:
    here: Office = await office(desk.app)
    id = await here.source()
    await here.start_worker()
    await here.post(fields={"id": "evt_1"})
    await desk.begun.wait()
    await here.db.execute(
        "update onceward.sources set mode = 'inline', changed_at = clock_timestamp() where webhook_id = $1", id
    )
    await here.inbox.catalog.refresh()
    again = asyncio.create_task(here.post(fields={"id": "evt_1"}))
    await until(lambda: _waiting(here, 1))
    desk.may_end.set()
    assert (await again).json == {"status": "ok", "call": 1}
    assert desk.calls == 1


async def test_waiting_duplicates_get_retry_after_when_the_database_is_lost(
    office, desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    here: Office = await office(desk.app)
    await here.source()
    await here.start_worker()
    await here.post(fields={"id": "evt_1"})
    await desk.begun.wait()

    class Gone:
        async def fetch(self, *_: object) -> Any:
            raise ConnectionResetError

    monkeypatch.setattr(duplicate_waits, "WAIT_S", 0.3)
    monkeypatch.setattr(here.inbox._waiting, "_db", Gone())
    assert (await here.post(fields={"id": "evt_1"})).status == 503
    desk.may_end.set()


async def _waiting(here: Office, count: int) -> bool:
    return here.inbox._waiting._count >= count
