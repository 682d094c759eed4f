"""The short way for webhooks that arrive whole, over real sockets: whatever is not plain must not be noticed."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from typing import Any

import pytest

from onceward import Event, Onceward, Permanent, Tx
from onceward.db import Database
from onceward.settings import load_settings
from onceward.web import Dispatcher, WebServer, protocol
from onceward.web.asgi import Mount
from onceward.web.protocol import MOST_HELD_BYTES
from onceward.web.server import listen
from tests.inbox.conftest import Office, office

__all__ = ["office"]


ELSEWHERE = b"GET /elsewhere HTTP/1.1\r\nhost: here\r\n\r\n"


async def other(scope: Any, receive: Any, send: Any) -> None:
    """What stands where the API would."""
    body = b"other " + scope["method"].encode()
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % len(body))]})
    await send({"type": "http.response.body", "body": body})


class Front:
    """A post office behind the shipped server; counts how many requests took the short way."""

    def __init__(self, here: Office) -> None:
        self.here = here
        self.taken = 0
        dispatcher = Dispatcher(other)
        dispatcher.mount(Mount("/webhooks", here.inbox.receiver, direct=self._direct))
        self.web = WebServer(dispatcher, load_settings(port=0))

    def _direct(self, *request: Any) -> bool:
        taken = self.here.inbox.receiver.direct(*request)
        self.taken += taken
        return taken

    def wire(self, body: bytes, *, name: str = "stripe", path: str = "", more: bytes = b"", sign: bool = True) -> bytes:
        headers = self.here.signed(name, body) if sign else {}
        lines = "".join(f"{key}: {value}\r\n" for key, value in headers.items()).encode()
        head = b"POST %b HTTP/1.1\r\nhost: here\r\n" % (path or f"/webhooks/{name}").encode()
        return head + lines + more + b"content-length: %d\r\n\r\n" % len(body) + body

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection("127.0.0.1", self.web.port)


async def answer(reader: asyncio.StreamReader) -> tuple[int, dict[str, str], bytes]:
    async with asyncio.timeout(20):
        head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        headers = dict(line.split(": ", 1) for line in head[1:] if line)
        return int(head[0].split()[1]), headers, await reader.readexactly(int(headers.get("content-length", "0")))


def event(number: int) -> bytes:
    return b'{"id": "evt_%d", "type": "charge.succeeded", "amount": 1.10}' % number


@pytest.fixture
async def front(office: Any) -> AsyncIterator[Front]:
    here = await office(Onceward("front"))
    await here.source("stripe")
    front = Front(here)
    await front.web.start()
    yield front
    await front.web.stop()


async def count(db: Database) -> int:
    return await db.fetchval("select count(*) from onceward.webhook_events")


async def test_a_whole_request_is_committed_before_it_is_answered_and_kept_byte_for_byte(front: Front) -> None:
    reader, writer = await front.connect()
    writer.write(front.wire(event(1)))
    status, headers, body = await answer(reader)
    assert (status, front.taken) == (200, 1)
    assert headers["content-type"] == "application/json"
    assert "date" in headers
    row = await front.here.db.fetchrow(
        "select seq, raw, onceward.payload_of(e)::text as payload, signature from onceward.webhook_events e"
    )
    assert row is not None
    assert body == b'{"status":"accepted","id":%d}' % row["seq"]
    assert row["raw"] == event(1)
    assert row["payload"] == '{"id": "evt_1", "type": "charge.succeeded", "amount": 1.10}'
    assert row["signature"].startswith("t=")
    writer.write(front.wire(event(1)))
    status, headers, _ = await answer(reader)
    assert (status, headers["onceward-duplicate"], front.taken) == (200, "true", 2)
    writer.close()


async def test_requests_that_are_not_simple_use_the_ordinary_path(front: Front) -> None:
    reader, writer = await front.connect()
    for request, expected in (
        (front.wire(event(1), sign=False), 401),
        (front.wire(event(1), path="/webhooks/nobody"), 404),
        (front.wire(b"not json"), 400),
        (b"PUT /webhooks/stripe HTTP/1.1\r\nhost: here\r\ncontent-length: 0\r\n\r\n", 405),
        (ELSEWHERE, 200),
        (front.wire(event(1), path="/webhooks/stripe?a=b"), 200),
    ):
        writer.write(request)
        assert (await answer(reader))[0] == expected
    assert front.taken == 0
    assert await count(front.here.db) == 1
    writer.close()


async def test_a_request_in_pieces_is_taken_too(front: Front) -> None:
    reader, writer = await front.connect()
    whole = front.wire(event(1))
    for cut in (10, len(whole) - 5):
        writer.write(whole[:cut])
        await writer.drain()
        # This later request is answered after the server has read that piece by itself.
        beside_reader, beside = await front.connect()
        beside.write(ELSEWHERE)
        await answer(beside_reader)
        beside.close()
        writer.write(whole[cut:])
        assert (await answer(reader))[0] == 200
    assert (await count(front.here.db), front.taken) == (1, 2)
    writer.close()


async def test_a_large_or_slow_body_goes_to_the_application_piece_by_piece(
    front: Front, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader, writer = await front.connect()
    large = event(1)[:-1] + b', "more": "%b"}' % (b"x" * (MOST_HELD_BYTES + 1))
    for body, number in ((large, 1), (event(2), 2)):
        whole = front.wire(body)
        writer.write(whole[:-5])
        await writer.drain()
        beside_reader, beside = await front.connect()
        beside.write(ELSEWHERE)
        await answer(beside_reader)
        beside.close()
        monkeypatch.setattr(protocol, "HELD_S", 0.0)
        edge = front.web._edge
        for connection in [each for slot in edge._slots for each in slot]:
            connection.visit(edge.now)
        writer.write(whole[-5:])
        assert (await answer(reader))[0] == 200
        assert (await count(front.here.db), front.taken) == (number, 0)
    writer.close()


async def test_an_inline_event_is_handled_by_the_direct_path(office: Any) -> None:
    app = Onceward("front")

    @app.on("stripe", "charge.succeeded")
    async def complete(event: Event, tx: Tx) -> dict[str, Any]:
        if event.event_id == "evt_2":
            raise Permanent("this event is refused")
        if event.event_id == "evt_3":
            raise RuntimeError("this event fails")
        return {"amount": event.payload["amount"]}

    here = await office(app)
    await here.source("stripe", mode="inline")
    front = Front(here)
    await front.web.start()
    reader, writer = await front.connect()
    for number, status, part in ((1, 200, b"1.1"), (1, 200, b"1.1"), (2, 400, b"refused"), (3, 500, b"id")):
        writer.write(front.wire(event(number)))
        answered, _, body = await answer(reader)
        assert (answered, part in body) == (status, True), body
    rows = await here.db.fetch(
        "select e.event_id, e.status, e.attempts, w.id is not null as waits from onceward.webhook_events e"
        " left join onceward.work w on w.id = e.seq and w.dead_reason is null order by 1"
    )
    assert [tuple(row) for row in rows] == [
        ("evt_1", "success", 1, False),
        ("evt_2", "dead_letter", 1, False),
        ("evt_3", "pending", 1, True),
    ]
    assert front.taken == 4
    writer.close()
    await front.web.stop()


async def test_pipelined_requests_are_answered_in_their_order(front: Front) -> None:
    reader, writer = await front.connect()
    writer.write(front.wire(event(1)) + ELSEWHERE + front.wire(event(2)) + ELSEWHERE)
    bodies = [(await answer(reader))[2] for _ in range(4)]
    assert [b"accepted" in body for body in bodies] == [True, False, True, False]
    assert await count(front.here.db) == 2
    writer.close()


async def test_a_sender_that_goes_away_disturbs_nobody(front: Front) -> None:
    _, gone = await front.connect()
    gone.write(front.wire(event(1)))
    await gone.drain()
    gone.transport.abort()
    reader, writer = await front.connect()
    writer.write(front.wire(event(2)))
    assert (await answer(reader))[0] == 200
    writer.close()


async def test_a_connection_may_be_closed_by_the_sender_after_its_answer(front: Front) -> None:
    reader, writer = await front.connect()
    writer.write(front.wire(event(1), more=b"connection: close\r\n"))
    assert (await answer(reader))[0] == 200
    assert await reader.read() == b""
    writer.close()


async def test_a_stop_waits_for_what_is_being_committed(front: Front, monkeypatch: pytest.MonkeyPatch) -> None:
    entered, go_on = asyncio.Event(), asyncio.Event()
    commits = front.here.inbox.receiver.commits
    flush = commits._flush

    async def slow(batches: Any) -> Any:
        entered.set()
        await go_on.wait()
        return await flush(batches)

    monkeypatch.setattr(commits, "_flush", slow)
    reader, writer = await front.connect()
    writer.write(front.wire(event(1)))
    await entered.wait()
    stopping = asyncio.create_task(front.web.stop())
    while not front.web._server.should_exit:
        await asyncio.sleep(0)
    go_on.set()
    status, _, _ = await answer(reader)
    assert status == 200
    writer.close()
    await stopping


async def test_a_webhook_over_the_limit_of_waiting_commits_is_answered_503_at_once(front: Front) -> None:
    front.here.inbox.receiver.commits._most_waiting = 0
    reader, writer = await front.connect()
    writer.write(front.wire(event(1)))
    status, headers, _ = await answer(reader)
    assert (status, headers["retry-after"]) == (503, "2")
    writer.close()


async def test_a_lost_database_is_answered_503_and_nothing_is_stored(
    front: Front, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(_batches: Any) -> Any:
        raise ConnectionResetError

    monkeypatch.setattr(front.here.inbox.receiver.commits, "_flush", broken)
    reader, writer = await front.connect()
    writer.write(front.wire(event(1)))
    status, headers, body = await answer(reader)
    assert (status, front.taken) == (503, 1)
    assert headers["retry-after"] == "2"
    assert b"outcome unknown" in body
    writer.close()


async def test_a_duplicate_of_a_running_event_is_answered_when_that_event_stops_running(front: Front) -> None:
    reader, writer = await front.connect()
    writer.write(front.wire(event(1)))
    _, _, first = await answer(reader)
    db = front.here.db
    await db.execute("update onceward.work set lease = 7, claimed_at = clock_timestamp()")
    writer.write(front.wire(event(1)))
    waiting = front.here.inbox._waiting
    async with asyncio.timeout(10):
        while not waiting._count:
            await asyncio.sleep(0.005)
    await db.execute("update onceward.work set lease = null, claimed_at = null")
    status, headers, body = await answer(reader)
    assert (status, headers["onceward-duplicate"], body, front.taken) == (200, "true", first, 2)
    writer.close()


def test_an_accepted_connection_sends_the_body_without_waiting_for_the_client_to_acknowledge_the_head() -> None:
    """On the event loop of asyncio nothing else sets it, and every answer took 40 ms."""
    with (
        listen(load_settings(), 0, backlog=1) as listener,
        socket.create_connection(listener.getsockname()),
        listener.accept()[0] as accepted,
    ):
        assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
