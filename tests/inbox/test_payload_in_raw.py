"""A body that is its own payload is stored once. Every reader still gets the payload."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import asyncpg
import pytest

from onceward import Event, Onceward, Tx
from onceward.db import Database
from onceward.inbox.erasers import ERASERS
from onceward.inbox.event_details import show
from onceward.inbox.replay import EventFilter, replay
from onceward.trust.erase import erase
from onceward.webhooks.payload import read_json
from onceward.webhooks.provider import Rejected
from tests.inbox.conftest import Office

MakeOffice = Callable[[Onceward], Awaitable[Office]]

BODY = (
    b'{"type":"charge.succeeded", "id":"evt_1","name":"Jos\\u00e9 \\ud83d\\ude00","amount":1.10,"z":1,"a":{"b":[1e2]}}'
)
PAYLOAD = {
    "type": "charge.succeeded",
    "id": "evt_1",
    "name": "José 😀",
    "amount": 1.1,
    "z": 1,
    "a": {"b": [100.0]},
}
COLUMNS = (
    "select payload, payload_in_raw, raw, onceward.payload_of(e) as whole from onceward.webhook_events e order by seq"
)


def shop(seen: list[object]) -> Onceward:
    app = Onceward("shop")

    @app.on("stripe", "charge.succeeded")
    async def complete(event: Event, tx: Tx) -> None:
        seen.append(event.payload)

    return app


@pytest.mark.parametrize("mode", ["ack", "inline"])
async def test_a_body_that_is_the_payload_is_stored_once_and_read_everywhere(office: MakeOffice, mode: str) -> None:
    seen: list[object] = []
    here = await office(shop(seen))
    await here.source(mode=mode)
    reply = await here.send(BODY)
    assert reply.status == 200
    await here.start_worker()
    [seq] = [row["seq"] for row in await here.db.fetch("select seq from onceward.webhook_events")]
    await here.status(seq, "success")
    [row] = await here.db.fetch(COLUMNS)
    assert (row["payload"], row["payload_in_raw"], row["raw"], row["whole"]) == (None, True, BODY, PAYLOAD)
    assert seen == [PAYLOAD]
    event = await show(here.db, "evt_1")
    assert event is not None
    assert (event.payload, event.raw) == (PAYLOAD, BODY)


async def test_a_copy_for_a_replay_has_the_payload(office: MakeOffice) -> None:
    seen: list[object] = []
    here = await office(shop(seen))
    await here.source(mode="inline")
    await here.send(BODY)
    await here.start_worker()
    done = await replay(here.db, EventFilter(event_ids=["evt_1"]), actor="test", reason="again", as_new=True)
    await here.status(done.done[0], "success")
    assert seen == [PAYLOAD, PAYLOAD]


async def test_workers_in_other_languages_get_the_payload_of_every_event(office: MakeOffice) -> None:
    """Also of an event that arrived before its source was switched to `external`."""
    here = await office(shop([]))
    await here.source()
    await here.send(BODY)
    await here.db.execute(
        "update onceward.sources set mode = 'external', changed_at = clock_timestamp() where name = 'stripe'"
    )
    await here.db.execute(
        "update onceward.work set queue = 'external', lane = (select webhook_id::text from onceward.sources where name = 'stripe')"
    )
    await here.inbox.catalog.refresh()
    await here.send(BODY.replace(b"evt_1", b"evt_2"))
    [before, after] = await here.db.fetch(COLUMNS)
    assert (before["payload"], after["payload"], after["payload_in_raw"]) == (None, PAYLOAD | {"id": "evt_2"}, False)
    claimed = [await here.db.fetchval("select payload from webhook.claim_next_event()") for _ in range(2)]
    assert claimed == [PAYLOAD, PAYLOAD | {"id": "evt_2"}]


async def test_a_name_that_the_body_writes_with_escapes_is_erased(office: MakeOffice) -> None:
    here = await office(shop([]))
    await here.source(mode="inline")
    await here.send(BODY.replace(b"Jos\\u00e9 \\ud83d\\ude00", b"jos\\u00e9@example.org"))
    await here.send(BODY.replace(b"evt_1", b"evt_2"))
    report = await erase(here.db, "josé@example.org", ERASERS, organization=None, actor="test")
    assert report.rows["received webhooks"] == 1
    [erased, other] = await here.db.fetch(COLUMNS)
    assert (erased["raw"], erased["whole"], other["whole"]["id"]) == (None, None, "evt_2")


HOSTILE = [
    rb'{"a":"\u0000"}',
    rb'{"a":"\\u0000"}',
    rb'{"\u0000":1}',
    rb'{"a":"\ud83d\ude00"}',
    rb'{"a":"\ud83d"}',
    rb'{"a":"\ud83d\u0041"}',
    rb'{"a":"\ude00\ud83d"}',
    b'{"a":1,"a":2}',
    b'{"a":-0.0, "b":1E+5, "c":1e-5, "d":-0}',
    b'{"a":1e400}',
    b'{"a":1e131071}',
    b'{"a":1e131072}',
    b'{"a":1e-16383}',
    b'{"a":1e-16384}',
    b'{"a":12e-99999999999}',
    b'{"a":0.' + b"1" * 16_383 + b"}",
    b'{"a":0.' + b"1" * 16_384 + b"}",
    b'{"a":' + b"9" * 131_072 + b"}",
    b'{"a":' + b"9" * 131_073 + b"}",
    b"[" * 199 + b"]" * 199,
    b' \n\t{"a" : [ ] }\r\n',
    '{"a":"\u2028 é \uffff \U0010ffff"}'.encode(),
    b'{"a":"\x7f"}',
    b'\xef\xbb\xbf{"a":1}',
    b'{"a":"\xed\xa0\x80"}',
    b"{'a':1}",
    b'{"a":NaN}',
    b'{"a":01}',
]


async def test_what_is_stored_without_asking_postgresql_can_be_read_by_it(db: Database) -> None:
    """`read_json` alone decides whether jsonb can hold a body: PostgreSQL parses it only when somebody asks."""
    verdicts: list[bool | None] = []
    for body in HOSTILE:
        try:
            document = read_json(body)
        except Rejected:
            verdicts.append(None)
            continue
        verdicts.append(not document.unstorable)
        try:
            value = await db.fetchval("select convert_from($1::bytea, 'UTF8')::jsonb", body)
        except asyncpg.PostgresError:
            assert document.unstorable, body[:40]
        else:
            assert value == document.value, body[:40]
    assert (verdicts.count(True), verdicts.count(False), verdicts.count(None)) == (13, 10, 5)
