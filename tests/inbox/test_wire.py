"""What arrives over the wire under one id: other types, batches that overlap, bodies that a checksum cannot tell apart."""

from __future__ import annotations

import gzip
import time
import zlib
from collections.abc import Awaitable, Callable
from typing import Any

import orjson
import pytest
from structlog.testing import capture_logs

from onceward import Event, Onceward, Tx
from onceward.inbox import answers, metrics
from onceward.integrations.paypal.simulator import simulated_source
from onceward.integrations.paypal.webhooks import PayPal
from onceward.testing import drain
from onceward.webhooks.provider import Request
from onceward.webhooks.registry import PROVIDERS
from tests.inbox.conftest import Office, call, office

__all__ = ["office"]

MakeOffice = Callable[[Onceward], Awaitable[Office]]


async def events(here: Office) -> list[tuple[str, str]]:
    rows = await here.db.fetch("select event_id, type from onceward.webhook_events order by seq")
    return [(row["event_id"], row["type"]) for row in rows]


# -- one id, two types -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["ack", "inline"])
async def test_an_id_used_again_for_another_type_is_counted_and_logged(office: MakeOffice, mode: str) -> None:
    app = Onceward("types")

    @app.on("stripe", "a")
    async def first(event: Event, tx: Tx) -> None: ...

    @app.on("stripe", "b")
    async def second(event: Event, tx: Tx) -> None: ...

    here = await office(app)
    source = await here.source(mode=mode)
    counter = metrics.ID_REUSED.labels(str(source), "stripe")
    with capture_logs() as logs:
        for type in ("a", "a", "b", "b"):
            assert (await here.send(orjson.dumps({"id": "evt_1", "type": type}))).status == 200
    assert counter._value.get() == 2
    told = [each for each in logs if each["event"] == "event_id.reused"]
    assert [(each["source"], each["stored_type"], each["type"]) for each in told] == [("stripe", "a", "b")]
    assert await events(here) == [("evt_1", "a")]


@pytest.mark.parametrize("mode", ["ack", "inline"])
async def test_an_id_with_another_body_is_counted_and_logged_and_the_first_body_stays(
    office: MakeOffice, mode: str
) -> None:
    app = Onceward("bodies")

    @app.on("stripe", "a")
    async def first(event: Event, tx: Tx) -> None: ...

    here = await office(app)
    source = await here.source(mode=mode)
    with capture_logs() as logs:
        for amount in (1, 1, 2, 3):
            body = orjson.dumps({"id": "evt_1", "type": "a", "amount": amount})
            assert (await here.send(body)).status == 200
    assert metrics.BODY_CHANGED.labels(str(source), "stripe")._value.get() == 2
    [logged] = [each for each in logs if each["event"] == "event_id.other_body"]
    stored = await here.event(logged["id"])
    assert stored["payload"]["amount"] == 1


# -- compressed bodies -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("signed", ["plain", "compressed"])
async def test_a_gzip_body_is_accepted_signed_before_or_after_compression(office: MakeOffice, signed: str) -> None:
    here = await office(Onceward("gzip"))
    await here.source()
    plain = orjson.dumps({"id": "evt_1", "type": "a", "text": "x" * 5000})
    sent = gzip.compress(plain)
    headers = {**here.signed("stripe", plain if signed == "plain" else sent), "content-encoding": "gzip"}
    reply = await call(here.inbox, "/webhooks/stripe", sent, headers)
    assert reply.status == 200, reply.body
    row = await here.event(reply.json["id"])
    assert (row["raw"], row["payload"]["text"]) == (plain, "x" * 5000)


ENCODED = {
    "brotli": ("br", b"{}", 415, "unsupported_encoding"),
    "twice": ("gzip, gzip", gzip.compress(b"{}", mtime=0), 415, "unsupported_encoding"),
    "not compressed": ("gzip", b'{"id": 1}', 415, "unsupported_encoding"),
    "cut off": ("gzip", gzip.compress(b'{"id": 1}', mtime=0)[:-4], 415, "unsupported_encoding"),
    "more behind it": ("gzip", gzip.compress(b"{}", mtime=0) + b"{}", 415, "unsupported_encoding"),
    "bomb": ("gzip", gzip.compress(b"0" * (2 << 20), 1, mtime=0), 413, "too_large_decompressed"),
    "identity": ("identity", b"no JSON", 400, "bad_body"),
}


@pytest.mark.parametrize("case", ENCODED)
async def test_other_encodings_and_bombs_are_refused_by_name(office: MakeOffice, case: str) -> None:
    encoding, body, status, reason = ENCODED[case]
    here = await office(Onceward("gzip"))
    await here.source(max_body_bytes=1 << 20)
    headers = {**here.signed("stripe", body), "content-encoding": encoding}
    reply = await call(here.inbox, "/webhooks/stripe", body, headers)
    assert (reply.status, reply.json["reason"]) == (status, reason)
    assert await events(here) == []


async def test_a_gzip_body_without_a_valid_signature_is_refused(office: MakeOffice) -> None:
    here = await office(Onceward("gzip"))
    await here.source()
    body = gzip.compress(b'{"id": "evt_1", "type": "a"}')
    headers = {**here.signed("stripe", b"another body"), "content-encoding": "gzip"}
    assert (await call(here.inbox, "/webhooks/stripe", body, headers)).status == 401


# -- what senders and HTTP ask of an answer ----------------------------------------------------------------------------


async def test_slack_gets_an_empty_answer_and_a_204_has_no_headers_of_a_body(office: MakeOffice) -> None:
    here = await office(Onceward("answers"))
    await here.source("slack")
    form = "application/x-www-form-urlencoded"
    for body in (b"command=%2Fweather&trigger_id=1", b'payload={"type":"view_submission","trigger_id":"2"}'):
        headers = {**here.signed("slack", body), "content-type": form}
        for _ in range(2):
            reply = await call(here.inbox, "/webhooks/slack", body, headers)
            assert (reply.status, reply.body) == (200, b"")
    answer = answers.headers(answers.Answer(204, b""))
    assert answer == []
    reply = await call(here.inbox, "/webhooks/slack", method="PUT")
    assert (reply.status, reply.headers["allow"]) == (405, "POST")


async def test_where_ids_are_unique_only_per_type_both_events_are_kept(office: MakeOffice) -> None:
    here = await office(Onceward("per_type"))
    await here.source("acme", provider="generic", options={"header": "X-Signature", "id_per_type": True})
    for type in ("a", "b", "a"):
        assert (await here.send(orjson.dumps({"id": 7, "type": type}), name="acme")).status == 200
    assert await events(here) == [("7:a", "a"), ("7:b", "b")]


def test_events_of_paypals_own_simulator_are_distinguished_by_type() -> None:
    provider = PayPal()
    for webhook_id, expected in (("WEBHOOK_ID", "WH-1:CHECKOUT.ORDER.APPROVED"), ("4JH86", "WH-1")):
        config = simulated_source(webhook_id)
        body = orjson.dumps(provider.sample("CHECKOUT.ORDER.APPROVED", {"id": "WH-1"}))
        [item] = provider.parse(config, Request("POST", "/webhooks/paypal", "", {}, body))
        assert item.event_id == expected


# -- batches ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("items", "wrap"),
    [("", lambda batch: batch), ("events.list", lambda batch: {"type": "batch", "events": {"list": batch}})],
)
async def test_a_batch_that_overlaps_an_earlier_one_adds_what_is_new(
    office: MakeOffice, items: str, wrap: Callable[[Any], Any]
) -> None:
    seen: list[tuple[Any, str]] = []
    app = Onceward("batches")

    @app.on("crm", "contact.created")
    async def handle(event: Event, tx: Tx) -> None:
        seen.append((event.payload["eventId"], event.event_id))

    here = await office(app)
    options = {"header": "X-Signature", "items": items, "id_field": "eventId", "type_field": "subscriptionType"}
    await here.source("crm", provider="generic", options=options)
    for ids in ([1, 2], [1, 3], [1, 3]):
        batch = [{"eventId": id, "subscriptionType": "contact.created"} for id in ids]
        assert (await here.send(orjson.dumps(wrap(batch)), name="crm")).status == 200
    await drain(here.engine)
    assert sorted(seen) == [(1, "1"), (2, "2"), (3, "3")]


async def test_elements_without_ids_are_known_by_what_they_are(office: MakeOffice) -> None:
    here = await office(Onceward("nameless"))
    await here.source("crm", provider="generic", options={"header": "X-Signature"})
    for batch in ([{"n": 1}, {"n": 2}], [{"n": 1}, {"n": 3}], [5, "text"]):
        assert (await here.send(orjson.dumps(batch), name="crm")).status == 200
    rows = await here.db.fetch("select onceward.payload_of(e) as payload from onceward.webhook_events e order by seq")
    payloads = [row["payload"] for row in rows]
    assert sorted(payloads, key=str) == sorted([{"n": 1}, {"n": 2}, {"n": 3}, 5, "text"], key=str)


async def test_an_element_that_cannot_be_stored_does_not_spoil_its_neighbours(office: MakeOffice) -> None:
    here = await office(Onceward("spoiled"))
    await here.source("crm", provider="generic", options={"header": "X-Signature"})
    body = rb'[{"id": 1, "text": "a\u0000b"}, {"id": 2, "text": "fine"}, {"id": 3, "n": 1e309}]'
    assert (await here.send(body, name="crm")).status == 200
    rows = await here.db.fetch("select event_id, status from onceward.webhook_events order by event_id")
    assert [tuple(row) for row in rows] == [("1", "dead_letter"), ("2", "pending"), ("3", "pending")]


async def test_an_empty_batch_is_kept_as_one_empty_event(office: MakeOffice) -> None:
    here = await office(Onceward("empty"))
    await here.source("crm", provider="generic", options={"header": "X-Signature"})
    assert (await here.send(b"[]", name="crm")).status == 200
    assert [type for _, type in await events(here)] == ["empty"]


# -- a checksum is not a signature ---------------------------------------------------------------------------------------


def same_checksum(body: bytes, wanted: int) -> bytes:
    """The body with a padding that gives it the CRC32 `wanted`: what anybody can do who has seen one request."""
    # Flipping one bit of the body changes the CRC by an amount that does not depend on the other bits, so which of
    # 64 letters to change is a system of 32 linear equations.
    pad = b"a" * 64
    at = body.index(b"PAD")
    plain = body.replace(b"PAD", pad)
    changes: list[tuple[int, int]] = []
    for n in range(len(pad)):
        flipped = plain[: at + n] + b"c" + plain[at + n + 1 :]
        changes.append((zlib.crc32(flipped) ^ zlib.crc32(plain), 1 << n))
    rest, chosen = wanted ^ zlib.crc32(plain), 0
    for bit in reversed(range(32)):
        pivot = next((each for each in changes if each[0] >> bit & 1), None)
        if pivot is None:
            continue
        changes = [(c ^ pivot[0], m ^ pivot[1]) if c >> bit & 1 else (c, m) for c, m in changes if (c, m) != pivot]
        if rest >> bit & 1:
            rest, chosen = rest ^ pivot[0], chosen ^ pivot[1]
    letters = bytes(ord("c") if chosen >> n & 1 else ord("a") for n in range(len(pad)))
    return body.replace(b"PAD", letters)


async def test_a_second_body_under_a_paypal_transmission_is_refused_though_its_checksum_is_the_same(
    office: MakeOffice,
) -> None:
    here = await office(Onceward("paypal"))
    config = simulated_source("4JH86294D6297924G")
    await here.source("paypal", secret="", options=dict(config.options))
    provider = PayPal()
    genuine = orjson.dumps(provider.sample("PAYMENT.CAPTURE.COMPLETED", {"id": "WH-1"}))
    headers = provider.sign(config, genuine, time.time())
    forged = orjson.dumps(provider.sample("PAYMENT.CAPTURE.COMPLETED", {"id": "WH-2", "summary": "PAD"}))
    forged = same_checksum(forged, zlib.crc32(genuine))
    assert zlib.crc32(forged) == zlib.crc32(genuine)
    assert forged != genuine
    assert (await call(here.inbox, "/webhooks/paypal", genuine, headers)).status == 200
    reply = await call(here.inbox, "/webhooks/paypal", forged, headers)
    assert (reply.status, reply.json["reason"]) == (401, "bad_signature")
    again = await call(here.inbox, "/webhooks/paypal", genuine, headers)
    assert (again.status, again.headers["onceward-duplicate"]) == (200, "true")
    assert await events(here) == [("WH-1", "PAYMENT.CAPTURE.COMPLETED")]
    await here.db.execute("update onceward.webhook_transmissions set received_at = now() - interval '401 days'")
    await here.inbox.upkeep.prune()
    kept = await here.db.fetchval("select count(*) from onceward.webhook_transmissions")
    assert kept == 1, "for ever, as the ids of events are, unless ONCEWARD_DEDUPE_DAYS is set"


async def test_a_body_of_github_comes_once_if_the_source_says_so(office: Any) -> None:
    here: Office = await office(Onceward("wire"))
    await here.source("strict", provider="github", options={"once_per_body": True})
    await here.source("plain", provider="github")
    provider = PROVIDERS["github"]
    for name, statuses in (("strict", [200, 200, 401, 401]), ("plain", [200, 200, 200, 200])):
        config = here.configs[name]
        body = provider.encode(provider.sample("push"))
        seen: list[int] = []
        for id, type in (("1", "push"), ("1", "push"), ("2", "push"), ("1", "issues")):
            headers = provider.sign(config, body, time.time(), event_id=id, type=type)
            seen.append((await call(here.inbox, f"/webhooks/{name}", body, headers)).status)
        assert seen == statuses, name
    ids = await here.db.fetch(
        "select event_id from webhook_events e join onceward.sources s using (webhook_id) where s.name = 'strict'"
    )
    assert [row["event_id"] for row in ids] == ["1"]
