"""What a provider, or somebody who has its secret, may send by mistake: too much, broken, old, twice, with hostile text."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import uuid4

import pytest

from onceward.testing import until
from tests.clinic.practice import PHONE, PHONE_NUMBER_ID, Practice

SOURCES = ("clinic-stripe", "clinic-whatsapp", "clinic-twilio", "daily")
MIB = 1 << 20
EFFECTS = ("inbound_messages", "outgoing", "room_participants", "recordings", "meetings", "contacts")


@pytest.fixture
async def practice(practice: Practice) -> Practice:
    await practice.sources()
    await practice.patient()
    return practice


def stripe(text: str) -> dict[str, Any]:
    intent = {"id": "pi_1", "amount": 1, "currency": "sgd", "metadata": {"app": "clinic", "note": text}}
    return {"id": "evt_1", "type": "payment_intent.succeeded", "data": {"object": intent}}


def whatsapp(text: str) -> dict[str, Any]:
    message = {"from": PHONE[1:], "id": "wamid.1", "timestamp": "1", "type": "text", "text": {"body": text}}
    value = {"metadata": {"phone_number_id": PHONE_NUMBER_ID}, "messages": [message]}
    change = {"field": "messages", "value": value}
    return {"object": "whatsapp_business_account", "entry": [{"id": "1", "changes": [change]}]}


def twilio(text: str) -> dict[str, Any]:
    return {"MessageSid": "SM1", "SmsStatus": "received", "From": PHONE, "To": "+6580000000", "Body": text}


def daily(text: str) -> dict[str, Any]:
    person = {"session_id": "s", "room": "somewhere", "joined_at": 1.0, "user_name": text}
    return {"type": "participant.joined", "id": "d1", "payload": person}


BODIES: dict[str, Callable[[str], dict[str, Any]]] = dict(zip(SOURCES, (stripe, whatsapp, twilio, daily), strict=True))


async def stored(practice: Practice) -> int:
    counts = [await practice.db.fetchval(f"select count(*) from clinic.{table}") for table in EFFECTS]
    return sum(counts) + await practice.db.fetchval("select count(*) from onceward.webhook_events")


async def test_a_body_above_the_limit_is_refused_and_nothing_is_stored(practice: Practice) -> None:
    for source, body in BODIES.items():
        assert (await practice.inbox.post(body("x" * MIB), source=source)).status == 413
    await practice.drain()
    assert await stored(practice) == 0

    async def rejects() -> bool:
        rows = await practice.db.fetch("select source from onceward.webhook_rejects where reason = 'too_large'")
        return {row["source"] for row in rows} == set(SOURCES)

    await until(rejects)


async def test_a_large_text_below_the_limit_is_handled_once_and_only_its_beginning_is_kept(practice: Practice) -> None:
    for source, body in BODIES.items():
        for _ in range(2):
            assert (await practice.inbox.post(body("x" * 900_000), source=source)).status in (200, 204)
    await practice.drain()
    events = await practice.db.fetch("select status, attempts from webhook_events")
    assert [tuple(event) for event in events] == [("success", 1)] * 4
    assert await practice.db.fetchval("select max(length(text)) from clinic.inbound_messages") == 4096
    assert await practice.db.fetchval("select max(length(user_name)) from clinic.room_participants") == 255


async def test_hostile_characters_do_not_stop_a_handler(practice: Practice) -> None:
    text = "' \u202e <script> \U0001f600 {{ 1 }} %s \\ \uffff"
    for source, body in BODIES.items():
        assert (await practice.inbox.post(body(text), source=source)).status in (200, 204)
    await practice.drain()
    assert await practice.db.fetchval("select array_agg(status::text) from webhook_events") == ["success"] * 4
    assert await practice.db.fetchval("select array_agg(distinct text) from clinic.inbound_messages") == [text]


async def test_a_broken_body_is_refused_or_kept_without_an_effect(practice: Practice) -> None:
    broken = (b"", b"{", b"[]", b"null", b'{"type": 1}', b"%%%=%%%&&=", b"\xff\xfe\x00")
    for source in SOURCES:
        for body in broken[:-1] if source == "clinic-twilio" else broken:  # Twilio signs fields: the last has none
            assert (await practice.inbox.post(body, source=source)).status < 500
    await practice.drain()
    counts = [await practice.db.fetchval(f"select count(*) from clinic.{table}") for table in EFFECTS]
    assert sum(counts) == 0


async def test_an_old_delivery_that_somebody_recorded_is_refused(practice: Practice) -> None:
    for source in ("clinic-stripe", "daily"):  # the others do not sign a time
        reply = await practice.inbox.post(BODIES[source]("x"), source=source, age_s=86_400)
        assert (reply.status, reply.json["reason"]) == (400, "stale_timestamp")
    assert await stored(practice) == 0


async def test_numbers_and_ids_out_of_range_are_dead_letters_at_once(practice: Practice) -> None:
    person = daily("x")["payload"]
    intent = {"id": "pi_1", "object": "payment_intent", "status": "succeeded", "amount": 1, "currency": "sgd"}
    intent |= {"amount_received": "much", "metadata": {"onceward_payment": str(uuid4())}}
    await practice.inbox.post({**stripe("x"), "data": {"object": intent}}, source="clinic-stripe")
    for id, type, payload in (
        ("d1", "participant.left", {**person, "duration": 1e300}),
        ("d2", "meeting.ended", {"meeting_id": "m", "start_ts": -1, "room": "r"}),
        ("d3", "participant.joined", {**person, "session_id": "s" * 300}),
    ):
        assert (await practice.inbox.post({"type": type, "id": id, "payload": payload}, source="daily")).status == 200
    await practice.drain()
    events = await practice.db.fetch("select status, attempts from webhook_events")
    assert [tuple(event) for event in events] == [("dead_letter", 1)] * 4
