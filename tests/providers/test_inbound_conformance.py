"""What the inbox requires of every provider."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from onceward.webhooks.payload import is_storable
from onceward.webhooks.provider import (
    MAX_HEADER_CHARS,
    REASONS,
    ProviderReply,
    ReceivedItem,
    Rejected,
    Request,
    SourceConfig,
)
from onceward.webhooks.registry import PROVIDERS, get_provider
from tests.providers.conftest import WRITTEN

Make = Callable[..., SourceConfig]
Genuine = Callable[..., Request]

TIMED = ["daily", "formbricks", "generic", "slack", "standard", "stripe"]
UNSTORABLE = (b"\\u0000", b"\\ud800", b"\\udc00x")
BROKEN = ("", "=", "!!!", "v1", "v1,", "t=,v1=", "sha256=", "v0=")
SIGNED = sorted(set(WRITTEN) - {"none", "brevo"})


def now() -> float:
    return time.time()


@pytest.mark.parametrize(("name", "kind"), [(name, kind) for name in WRITTEN for kind in PROVIDERS[name].sample_types])
def test_a_genuine_sample_is_verified_and_becomes_an_event_of_its_type(
    name: str, kind: str, make_source: Make, genuine: Genuine
) -> None:
    config, provider = make_source(name), get_provider(name)
    request = genuine(config, kind, now=now())
    provider.verify(config, request, now())
    if provider.challenge(config, request) is not None:
        return
    items = provider.parse(config, request)
    assert [item.type for item in items] == [kind]
    assert items[0].event_id
    assert items[0].payload is not None
    assert orjson.loads(orjson.dumps(items[0].payload)) == items[0].payload
    assert provider.data(items[0].payload)


def test_two_samples_are_two_events_and_one_sample_twice_is_one(
    provider_name: str, make_source: Make, genuine: Genuine
) -> None:
    config, provider = make_source(provider_name), get_provider(provider_name)
    # A change of a WhatsApp account has no id but its time in seconds.
    kind = "message.text" if provider_name == "whatsapp" else provider.sample_types[0]
    first, second = genuine(config, kind), genuine(config, kind)

    def ids(request: Request) -> list[str]:
        return [item.event_id for item in provider.parse(config, request)]

    assert ids(first) == ids(first)
    assert ids(first) != ids(second)


def test_an_unknown_type_still_gives_a_sample(provider_name: str, make_source: Make, genuine: Genuine) -> None:
    config, provider = make_source(provider_name), get_provider(provider_name)
    request = genuine(config, "brand.new", now=now())
    provider.verify(config, request, now())
    assert len(provider.parse(config, request)) == 1


@pytest.mark.parametrize("name", SIGNED)
def test_one_changed_byte_is_a_bad_signature(name: str, make_source: Make, genuine: Genuine) -> None:
    config, provider = make_source(name), get_provider(name)
    request = genuine(config, provider.sample_types[0], now=now())
    for position in (0, len(request.body) // 2, len(request.body) - 1):
        body = bytearray(request.body)
        body[position] ^= 1
        with pytest.raises(Rejected) as refused:
            provider.verify(config, replace(request, body=bytes(body)), now())
        assert refused.value.reason in ("bad_signature", "bad_body")
        assert refused.value.status in (401, 400)


@pytest.mark.parametrize("name", sorted(set(WRITTEN) - {"paypal"}))
def test_every_live_secret_is_accepted_and_a_retired_one_is_not(name: str, make_source: Make, genuine: Genuine) -> None:
    provider = get_provider(name)
    signed_with_b = genuine(make_source(name, "b"), provider.sample_types[0])
    provider.verify(make_source(name, "a", "b"), signed_with_b, 1_700_000_000)
    provider.verify(make_source(name, "b", "a"), signed_with_b, 1_700_000_000)
    with pytest.raises(Rejected) as refused:
        provider.verify(make_source(name, "a"), signed_with_b, 1_700_000_000)
    assert refused.value.status == provider.bad_signature_status == 401


@pytest.mark.parametrize("name", sorted(set(WRITTEN) - {"paypal", "none"}))
def test_a_source_without_a_secret_accepts_nothing(name: str, make_source: Make, genuine: Genuine) -> None:
    provider, config = get_provider(name), make_source(name)
    request = genuine(config, provider.sample_types[0])
    empty = SourceConfig(
        provider=name, public_url=config.public_url, options=config.options, tolerance_s=config.tolerance_s
    )
    with pytest.raises(Rejected) as refused:
        provider.verify(empty, request, 1_700_000_000)
    assert (refused.value.reason, refused.value.status) == ("no_secret", 401)


@pytest.mark.parametrize("name", SIGNED)
def test_each_header_of_the_signature_is_needed(name: str, make_source: Make, genuine: Genuine) -> None:
    config, provider = make_source(name), get_provider(name)
    request = genuine(config, provider.sample_types[0], now=now())
    signed = [one for one in request.headers if any(word in one for word in ("sign", "stamp", "-sig", "cert"))]
    assert signed
    for header in signed:
        headers = {one: value for one, value in request.headers.items() if one != header}
        with pytest.raises(Rejected) as refused:
            provider.verify(config, replace(request, headers=headers), now())
        assert refused.value.reason in ("missing_header", "unsigned")
        for value, reason in (
            (" " * (MAX_HEADER_CHARS + 1), "header_too_large"),
            ("\xe9" * 20, "bad_header"),
        ):
            with pytest.raises(Rejected) as refused:
                provider.verify(config, replace(request, headers={**request.headers, header: value}), now())
            assert refused.value.reason == reason
            assert 400 <= refused.value.status < 500


@pytest.mark.parametrize("name", TIMED)
@pytest.mark.parametrize("side", [-1, 1])
def test_a_request_is_fresh_up_to_the_tolerance_and_stale_beyond_it(
    name: str, side: int, make_source: Make, genuine: Genuine
) -> None:
    config, provider = make_source(name), get_provider(name)
    request = genuine(config, provider.sample_types[0], now=1_700_000_000)
    provider.verify(config, request, 1_700_000_000 + side * 300)
    with pytest.raises(Rejected) as refused:
        provider.verify(config, request, 1_700_000_000 + side * 300.5)
    assert (refused.value.reason, refused.value.status) == ("stale_timestamp", 400)


@pytest.mark.parametrize("name", TIMED)
def test_a_timestamp_in_the_other_unit_is_named(name: str, make_source: Make, genuine: Genuine) -> None:
    config, provider = make_source(name), get_provider(name)
    request = genuine(config, provider.sample_types[0], now=1_700_000_000)
    right, wrong = ("1700000000000", "1700000000") if name == "daily" else ("1700000000", "1700000000000")
    headers = {key: value.replace(right, wrong) for key, value in request.headers.items()}
    assert headers != request.headers
    with pytest.raises(Rejected) as refused:
        provider.verify(config, replace(request, headers=headers), 1_700_000_000)
    assert (refused.value.reason, refused.value.status) == ("bad_timestamp", 400)


@pytest.mark.parametrize("name", SIGNED)
def test_a_signature_in_no_known_encoding_is_refused_cleanly(name: str, make_source: Make, genuine: Genuine) -> None:
    config, provider = make_source(name), get_provider(name)
    request = genuine(config, provider.sample_types[0], now=now())
    for header, value in request.headers.items():
        if "sig" not in header:
            continue
        for broken in (*BROKEN, value[:-3] + "***", value + "="):
            with pytest.raises(Rejected) as refused:
                provider.verify(config, replace(request, headers={**request.headers, header: broken}), now())
            assert refused.value.reason in REASONS
            assert 400 <= refused.value.status < 500


@pytest.mark.parametrize(
    ("name", "unstorable"),
    [(name, bad) for name in sorted(set(WRITTEN) - {"twilio"}) for bad in UNSTORABLE],
)
def test_json_that_jsonb_cannot_hold_is_an_event_without_payload(
    name: str, unstorable: bytes, make_source: Make, genuine: Genuine
) -> None:
    config, provider = make_source(name), get_provider(name)
    type = "message.text" if name == "whatsapp" else provider.sample_types[0]
    request = genuine(config, type)
    # In senders' own text for those that are split or have no envelope, else beside the envelope.
    text = {"whatsapp": b"Is there", "github": b"example/shop"}.get(name)
    if text is not None:
        body = request.body.replace(text, unstorable + text)
    else:
        body = b'{"extra":"' + unstorable + b'",' + request.body[1:]
    assert body != request.body
    (item,) = provider.parse(config, replace(request, body=body))
    assert item.unstorable
    assert item.payload is None
    assert item.event_id.isprintable()
    assert item.type == type


def test_an_escaped_backslash_before_u0000_is_ordinary_text(make_source: Make) -> None:
    body = rb'{"id":"evt_1","type":"a","text":"\\u0000"}'
    (item,) = get_provider("stripe").parse(make_source("stripe"), Request("POST", "/", "", {}, body))
    assert not item.unstorable
    assert item.payload["text"] == r"\u0000"


def test_an_id_no_index_can_hold_is_hashed_and_a_type_of_that_kind_is_unknown(make_source: Make) -> None:
    provider, config = get_provider("stripe"), make_source("stripe")
    for bad in ("x" * 256, "a\\u0000b", "a\\nb"):
        body = f'{{"id":"{bad}","type":"{bad}"}}'.encode()
        (item,) = provider.parse(config, Request("POST", "/", "", {}, body))
        assert item.event_id.startswith("sha256:")
        assert item.type == "unknown"


def test_a_body_nested_without_end_is_refused(provider_name: str, make_source: Make) -> None:
    config, provider = make_source(provider_name), get_provider(provider_name)
    headers = {"content-type": "application/json", "webhook-id": "1", "x-github-event": "a"}
    for depth in (250, 1000, 5000, 200_000):
        body = b'{"id":"1","type":"a","entry":' + b"[" * depth + b"]" * depth + b"}"
        with pytest.raises(Rejected) as refused:
            provider.parse(config, Request("POST", "/", "", headers, body))
        assert refused.value.reason == "bad_body"


# --- whatever arrives -----------------------------------------------------------------------------------

SUBSCRIBE = "hub.mode=subscribe&hub.verify_token=agreed&hub.challenge="
header_names = st.sampled_from(
    [
        "stripe-signature",
        "paypal-transmission-id",
        "paypal-transmission-time",
        "paypal-transmission-sig",
        "paypal-cert-url",
        "paypal-auth-algo",
        "x-cal-signature-256",
        "webhook-id",
        "webhook-timestamp",
        "webhook-signature",
        "svix-id",
        "svix-timestamp",
        "svix-signature",
        "x-twilio-signature",
        "x-twilio-webhooks-signature-settings",
        "i-twilio-idempotency-token",
        "x-hub-signature-256",
        "x-webhook-signature",
        "x-webhook-timestamp",
        "x-github-event",
        "x-github-delivery",
        "x-slack-signature",
        "x-slack-request-timestamp",
        "x-signature",
        "x-timestamp",
        "authorization",
    ]
)
plausible = st.sampled_from(
    [
        "t=1700000000,v1=" + "a" * 64,
        "t=1700000000,v1=" + "é" * 64,
        "t=١٧٠٠٠٠٠٠٠٠,v1=" + "a" * 64,
        "v1,AAAA v1a,AAAA",
        "v0=00",
        "sha256=00",
        "1700000000",
        "SHA256withRSA",
        "https://api.paypal.com/v1/notifications/certs/CERT-1",
        "https://[",
        "AAAA",
        "algorithm=HMAC_SHA512",
    ]
)
headers = st.dictionaries(header_names, st.one_of(st.text(max_size=80), plausible), max_size=8)
FIELDS = (
    *(
        "id",
        "type",
        "event",
        "event_id",
        "data",
        "object",
        "payload",
        "entry",
        "changes",
        "value",
        "messages",
    ),
    *("statuses", "field", "resource", "triggerEvent", "uid", "action", "repository", "channel", "challenge"),
    *("messages", "test", "created", "time"),
)
json_like = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(FIELDS),
            inner,
            max_size=5,
        )
    ),
    max_leaves=20,
)


def _dump(value: Any) -> bytes:
    return json.dumps(value).encode()


bodies = st.one_of(
    st.binary(max_size=200),
    json_like.map(_dump),
    st.text(max_size=60).map(lambda text: text.encode("utf-8", "surrogatepass")),
    st.sampled_from([b"", b"payload=%7B%7D", b"payload=%ff", b"a=%00&a=b", b'{"test":"test"}', b"[]", b"\xff"]),
)
kinds = st.sampled_from(["application/json", "application/x-www-form-urlencoded", "text/plain", ""])
requests = st.builds(
    lambda method, path, query, given, kind, body: Request(method, path, query, {"content-type": kind, **given}, body),
    st.sampled_from(["POST", "GET", "PUT"]),
    st.one_of(st.just("/webhooks/x"), st.text(max_size=20)),
    st.one_of(
        st.text(max_size=40),
        st.sampled_from(["hub.mode=subscribe&hub.verify_token=agreed&hub.challenge=é", "bodySHA256=é", "a=%ff"]),
    ),
    headers,
    kinds,
    bodies,
)


@pytest.mark.parametrize("name", WRITTEN)
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(request=requests)
def test_no_request_causes_anything_but_a_clean_refusal(name: str, make_source: Make, request: Request) -> None:
    config, provider = make_source(name), get_provider(name)

    refusals: list[Rejected] = []

    def attempt(step: Callable[[], object]) -> object:
        try:
            return step()
        except Rejected as refused:
            refusals.append(refused)
            return None

    attempt(lambda: provider.verify(config, request, 1_700_000_000))
    reply = attempt(lambda: provider.challenge(config, request))
    assert reply is None or isinstance(reply, ProviderReply)
    items = attempt(lambda: provider.parse(config, request))
    assert all(one.reason in REASONS and 400 <= one.status < 500 for one in refusals)
    for item in items if isinstance(items, list) else []:
        assert isinstance(item, ReceivedItem)
        assert 0 < len(item.event_id) <= 255
        assert item.event_id.isprintable()
        assert item.type.isprintable()
        assert item.payload is None if item.unstorable else is_storable(item.payload)
