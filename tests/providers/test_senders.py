"""A sender that is only data verifies, reads, signs and samples like one that is code."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import orjson
import pytest

from onceward.webhooks.events import Derive, Events, Header, Join
from onceward.webhooks.families import Hmac, PublicKey, Token
from onceward.webhooks.handshakes import TrialRequest
from onceward.webhooks.provider import ProviderReply, Rejected, Request, SourceConfig
from onceward.webhooks.samples import Samples
from onceward.webhooks.sender import Sender


def samples(payloads: dict[str, Any]) -> Samples:
    return Samples({type: orjson.dumps(payload) for type, payload in payloads.items()})


PAGERDUTY = Sender(
    name="pagerduty",
    title="PagerDuty",
    verification=Hmac(header="x-pagerduty-signature", separator=",", prefix="v1="),
    events=Events(id="event.id", type="event.event_type", ordering="event.data.id", data="event.data", strict=True),
    samples=samples(
        {
            "incident.triggered": {
                "event": {"id": "01", "event_type": "incident.triggered", "data": {"id": "P1", "title": "Disk full"}}
            }
        }
    ),
)
GITLAB = Sender(
    name="gitlab",
    title="GitLab",
    verification=Token(header="x-gitlab-token"),
    events=Events(id=Header("Idempotency-Key"), type=Header("X-Gitlab-Event")),
    samples=samples({"Push Hook": {"object_kind": "push"}}),
)
LINEAR = Sender(
    name="linear",
    title="Linear",
    verification=Hmac(header="linear-signature"),
    events=Events(id=Derive("data.id", "webhookTimestamp"), type=Join("type", "action"), data="data"),
    samples=samples(
        {"Issue.create": {"type": "Issue", "action": "create", "webhookTimestamp": 1, "data": {"id": "i1"}}}
    ),
)
LINE = Sender(
    name="line",
    title="LINE",
    verification=Hmac(header="x-line-signature", encoding="base64"),
    events=Events(items="events", id="webhookEventId", type="type", ordering="source.userId"),
    samples=samples({"message": {"events": [{"webhookEventId": "01", "type": "message", "source": {"userId": "U1"}}]}}),
)
DISCORD = Sender(
    name="discord",
    title="Discord",
    verification=PublicKey(header="x-signature-ed25519", timestamp="x-signature-timestamp", signed="{timestamp}{body}"),
    events=Events(),
    handshake=TrialRequest(when={"type": "1"}, content=b'"type":1', text=b'{"type":1}'),
)


def config(secret: str = "secret") -> SourceConfig:
    return SourceConfig(provider="generic", secrets=(secret,), options={"header": "unused"})


def post(headers: Mapping[str, str], body: bytes) -> Request:
    return Request("POST", "/", "", headers, body)


@pytest.mark.parametrize(
    ("sender", "type", "ordering", "data"),
    [
        (PAGERDUTY, "incident.triggered", "P1", {"id": "P1", "title": "Disk full"}),
        (GITLAB, "Push Hook", None, {"object_kind": "push"}),
        (LINEAR, "Issue.create", None, {"id": "i1"}),
        (LINE, "message", "U1", None),
    ],
    ids=lambda value: value.name if isinstance(value, Sender) else "",
)
def test_a_sample_of_a_declared_sender_is_verified_and_read(
    sender: Sender, type: str, ordering: str | None, data: Any
) -> None:
    source, body = config(), sender.encode(sender.sample(type))
    request = post(sender.sign(source, body, time.time(), type=type), body)
    sender.verify(source, request, time.time())
    assert sender.challenge(source, request) is None
    (item,) = sender.parse(source, request)
    assert (item.type, item.ordering) == (type, ordering)
    assert sender.parse(source, request)[0].event_id == item.event_id
    if data is not None:
        assert sender.data(item.payload) == data
    with pytest.raises(Rejected):
        sender.verify(config("other"), request, time.time())


def test_a_declared_sender_answers_its_handshake() -> None:
    assert DISCORD.challenge(config(), post({}, b'{"type":1}')) == ProviderReply(b'{"type":1}', "text/plain")
    assert DISCORD.challenge(config(), post({}, b'{"type":2}')) is None


@pytest.mark.parametrize(
    ("events", "body", "headers", "expected"),
    [
        (Events(id=("a", "b.c")), b'{"b":{"c":7},"type":"t"}', {}, ("7", "t")),
        (Events(id=(Header("X-Id"), "id")), b'{"id":"1","type":"t"}', {"x-id": "9"}, ("9", "t")),
        (Events(id="list.1.id", default_type="d"), b'{"list":[0,{"id":"x"}]}', {}, ("x", "d")),
        (Events(id=lambda request, value: value["n"] * 2), b'{"n":"ab","type":"t"}', {}, ("abab", "t")),
        (Events(id="id", id_per_type=True), b'{"id":"1","type":"t"}', {}, ("1:t", "t")),
        (Events(type=Join("type", "more", by="/")), b'{"id":"1","type":"t"}', {}, ("1", "t")),
        (Events(type=Join("kind", "type")), b'{"id":"1","type":"t"}', {}, ("1", "unknown")),
        (Events(body="any"), b"id=1&type=t", {"content-type": "application/x-www-form-urlencoded"}, ("1", "t")),
        (
            Events(form_field="payload"),
            b"payload=%7B%22id%22%3A%221%22%2C%22type%22%3A%22t%22%7D",
            {"content-type": "application/x-www-form-urlencoded; charset=utf-8"},
            ("1", "t"),
        ),
    ],
)
def test_an_id_and_a_type_are_read_where_they_are_declared(
    events: Events, body: bytes, headers: dict[str, str], expected: tuple[str, str]
) -> None:
    (item,) = events.read(post(headers, body))
    assert (item.event_id, item.type) == expected


def test_an_event_without_an_id_is_identified_by_its_body_unless_that_is_an_error() -> None:
    for body in (b'{"type":"t"}', b'{"id":null,"type":"t"}', b'{"id":{"a":1},"type":"t"}', b'{"id":"","type":"t"}'):
        assert Events().read(post({}, body))[0].event_id.startswith("sha256:")
        with pytest.raises(Rejected, match="has no id"):
            Events(strict=True).read(post({}, body))
    with pytest.raises(Rejected, match="has no type"):
        Events(strict_type=True).read(post({}, b'{"id":"1"}'))
    with pytest.raises(Rejected) as refused:
        Events(id=Header("X-Id"), strict=True).read(post({}, b'{"id":"1","type":"t"}'))
    assert refused.value.reason == "missing_header"


def test_elements_of_an_array_are_events_with_their_own_ids() -> None:
    events = Events(items="events", id=(Header("X-Id"), "id"), type=("kind", "type"))
    items = events.read(post({"x-id": "r"}, b'{"type":"whole","events":[{"id":"1","kind":"k"},{"n":2},{"n":2}]}'))
    assert [(each.event_id, each.type) for each in items] == [("1", "k"), ("r:1", "whole"), ("r:2", "whole")]
    without = events.read(post({}, b'{"events":[{"n":2},{"n":2}]}'))
    assert without[0].event_id == without[1].event_id
    assert len(Events(items=".", body="json").read(post({}, b'[{"id":"1"},{"id":"2"}]'))) == 2
    # Only a declared array is split: otherwise the whole body is one event.
    assert len(Events(body="json").read(post({}, b'[{"id":"1"},{"id":"2"}]'))) == 1
