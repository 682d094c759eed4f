"""Signatures published by the providers and in their libraries, and the refusals those libraries test."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import zlib
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from onceward.integrations.paypal.webhooks import signed_content
from onceward.webhooks.families.hmac_signature import mac
from onceward.webhooks.provider import Rejected, Request, SourceConfig
from onceward.webhooks.registry import get_provider

STANDARD_SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
STANDARD_ID = "msg_p5jXN8AQM9LWM0D4loKWxJek"
STANDARD_SIGNATURE = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
STANDARD_BODY = b'{"test": 2432232314}'
STANDARD_NOW = 1614265330

TWILIO_QUERY = "foo=1&bar=2"
TWILIO_FORM = {
    "CallSid": "CA1234567890ABCDE",
    "Digits": "1234",
    "From": "+14158675309",
    "To": "+18005551212",
    "Caller": "+14158675309",
}
FORM = "application/x-www-form-urlencoded"

STRIPE_BODY = b"""{
  "id": "evt_test_webhook",
  "object": "event",
  "data": { "object": { "id": "rdr_123", "object": "terminal.reader" } }
}"""
STRIPE_GOOD = "3bfab77baf5f7b6991a46c9b53b6547d7afc56148b10468fcad9f35c1992ffbd"


def verify(config: SourceConfig, headers: dict[str, str], body: bytes, now: float = 0, **where: str) -> None:
    request = Request("POST", where.get("path", "/"), where.get("query", ""), headers, body)
    get_provider(config.provider).verify(config, request, now)


def refusal(config: SourceConfig, headers: dict[str, str], body: bytes, now: float = 0, **where: str) -> str:
    with pytest.raises(Rejected) as refused:
        verify(config, headers, body, now, **where)
    return refused.value.reason


def standard(signature: str = STANDARD_SIGNATURE, prefix: str = "webhook", **changes: str) -> dict[str, str]:
    values = {"id": STANDARD_ID, "timestamp": str(STANDARD_NOW), "signature": signature} | changes
    return {f"{prefix}-{name}": value for name, value in values.items()}


@pytest.mark.parametrize("provider", ["standard", "formbricks"])
def test_standard_webhooks_vector(provider: str) -> None:
    config = SourceConfig(provider=provider, secrets=(STANDARD_SECRET,))
    verify(config, standard(), STANDARD_BODY, STANDARD_NOW)


def test_svix_headers_carry_the_same_signature() -> None:
    config = SourceConfig(provider="standard", secrets=(STANDARD_SECRET,))
    verify(config, standard(prefix="svix"), STANDARD_BODY, STANDARD_NOW)
    verify(config, standard(prefix="svix") | standard(), STANDARD_BODY, STANDARD_NOW)


@pytest.mark.parametrize(
    ("signature", "reason"),
    [
        (STANDARD_SIGNATURE[:-2] + "A=", "bad_signature"),
        ("v1,", "bad_signature"),
        (STANDARD_SIGNATURE.replace("v1,", "v2,"), "bad_header"),
        (STANDARD_SIGNATURE.removeprefix("v1,"), "bad_header"),
        ("v1,not base64!", "bad_encoding"),
    ],
)
def test_standard_webhooks_refusals(signature: str, reason: str) -> None:
    config = SourceConfig(provider="standard", secrets=(STANDARD_SECRET,))
    assert refusal(config, standard(signature), STANDARD_BODY, STANDARD_NOW) == reason


def test_standard_webhooks_finds_the_good_one_among_several() -> None:
    other = "Ceo5qEr07ixe2NLpvHk3FH9bwy/WavXrAFQ/9tdO6mc="
    config = SourceConfig(provider="standard", secrets=(STANDARD_SECRET,))
    several = f"v1,{other} v2,{other} nonsense {STANDARD_SIGNATURE} v1,{other}"
    verify(config, standard(several), STANDARD_BODY, STANDARD_NOW)


@pytest.mark.parametrize("stamp", ["soon", "1614265330.5", "-1614265330", "1_614_265_330", "١٦١٤٢٦٥٣٣٠"])
def test_standard_webhooks_timestamp_must_be_digits(stamp: str) -> None:
    config = SourceConfig(provider="standard", secrets=(STANDARD_SECRET,))
    reason = refusal(config, standard(timestamp=stamp), STANDARD_BODY, STANDARD_NOW)
    assert reason in ("bad_timestamp", "bad_header")


@pytest.mark.parametrize("secret", ["MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaS", "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwBr"])
def test_standard_webhooks_secret_may_lack_its_padding(secret: str) -> None:
    key = SourceConfig(provider="standard", secrets=(secret,)).keys[0]
    assert base64.b64encode(key).decode().rstrip("=")[:-1] == secret[:-1]


@pytest.mark.parametrize(
    ("secret", "body", "digest"),
    [
        (
            "It's a Secret to Everybody",
            b"Hello, World!",
            "757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17",
        ),
        ("mysecret", b'{"foo":"bar"}', "4864d2759938a15468b5df9ade20bf161da9b4f737ea61794142f3484236bda3"),
    ],
)
def test_github_vectors(secret: str, body: bytes, digest: str) -> None:
    config = SourceConfig(provider="github", secrets=(secret,))
    verify(config, {"x-hub-signature-256": f"sha256={digest}"}, body)
    assert refusal(config, {"x-hub-signature-256": digest}, body) == "bad_header"
    assert refusal(config, {"x-hub-signature-256": f"sha256={digest}"}, body + b" ") == "bad_signature"


def test_slack_vector() -> None:
    body = (
        b"token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&channel_id=G8PSS9T3V"
        b"&channel_name=foobar&user_id=U2CERLKJA&user_name=roadrunner&command=%2Fwebhook-collect&text="
        b"&response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands%2FT1DC2JH3J%2F397700885554"
        b"%2F96rGlfmibIGlgcZRskXaIFfN&trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c"
    )
    config = SourceConfig(provider="slack", secrets=("8f742231b10e8888abcd99yyyzzz85a5",))
    headers = {
        "x-slack-request-timestamp": "1531420618",
        "x-slack-signature": "v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503",
        "content-type": FORM,
    }
    verify(config, headers, body, 1531420618)
    (item,) = get_provider("slack").parse(config, Request("POST", "/", "", headers, body))
    assert item.type == "slash_command"
    assert item.event_id == "398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c"
    assert item.payload["text"] == ""


def twilio(base: str = "https://mycompany.com") -> SourceConfig:
    return SourceConfig(provider="twilio", secrets=("12345",), public_url=base)


def form(fields: dict[str, Any]) -> bytes:
    return get_provider("twilio").encode(fields)


@pytest.mark.parametrize(
    ("base", "signature"),
    [
        ("https://mycompany.com", "RSOYDt4T1cUTdK1PDd93/VVr8B8="),
        ("https://mycompany.com:443", "RSOYDt4T1cUTdK1PDd93/VVr8B8="),
        ("https://mycompany.com", "kvajT1Ptam85bY51eRf/AJRuM3w="),
        ("https://mycompany.com:443", "kvajT1Ptam85bY51eRf/AJRuM3w="),
        ("http://mycompany.com", "0ZXoZLH/DfblKGATFgpif+LLRf4="),
        ("http://mycompany.com:80", "0ZXoZLH/DfblKGATFgpif+LLRf4="),
        ("http://mycompany.com:1234", "Zmvh+3yNM1Phv2jhDCwEM3q5ebU="),
    ],
)
def test_twilio_vectors_with_and_without_port(base: str, signature: str) -> None:
    headers = {"x-twilio-signature": signature, "content-type": FORM}
    verify(twilio(base), headers, form(TWILIO_FORM), path="/myapp.php", query=TWILIO_QUERY)


def test_twilio_vector_with_repeated_fields() -> None:
    body = b"Sid=CA123&SidAccount=AC123&Digits=5678&Digits=1234&Digits=1234"
    headers = {"x-twilio-signature": "IK+Dwps556ElfBT0I3Rgjkr1wJU=", "content-type": FORM}
    verify(twilio(), headers, body, path="/myapp.php", query=TWILIO_QUERY)


def test_twilio_vector_for_json_needs_the_hash_of_the_body_too() -> None:
    body = b'{"property": "value", "boolean": true}'
    digest = "0a1ff7634d9ab3b95db5c9a2dfe9416e41502b283a80c7cf19632632f96e6620"
    headers = {"x-twilio-signature": "a9nBmqA0ju/hNViExpshrM61xv4=", "content-type": "application/json"}
    query = f"{TWILIO_QUERY}&bodySHA256={digest}"
    verify(twilio(), headers, body, path="/myapp.php", query=query)
    assert refusal(twilio(), headers, body + b" ", path="/myapp.php", query=query) == "bad_signature"
    # A body that nothing covers is refused even if the URL alone is signed.
    bare = {
        "x-twilio-signature": url_signature("https://mycompany.com/myapp.php"),
        "content-type": "text/plain",
    }
    assert refusal(twilio(), bare, b"anything", path="/myapp.php") == "bad_signature"
    verify(twilio(), bare, b"", path="/myapp.php")


def url_signature(url: str) -> str:
    return base64.b64encode(hmac.digest(b"12345", url.encode(), "sha1")).decode()


@pytest.mark.parametrize("query", ["name=O'Hara", "name=O%27Hara"])
def test_twilio_may_escape_a_quote_or_not(query: str) -> None:
    for signed in ("name=O'Hara", "name=O%27Hara"):
        headers = {"x-twilio-signature": url_signature(f"https://mycompany.com/in?{signed}")}
        verify(twilio(), headers, b"", path="/in", query=query)


def test_twilio_is_verified_under_the_configured_url_and_the_host_header_is_ignored() -> None:
    headers = {
        "x-twilio-signature": "RSOYDt4T1cUTdK1PDd93/VVr8B8=",
        "content-type": FORM,
        "host": "10.0.0.7:8400",
        "x-forwarded-host": "evil.example",
    }
    where: dict[str, Any] = {"path": "/myapp.php", "query": TWILIO_QUERY}
    verify(twilio(), headers, form(TWILIO_FORM), **where)
    assert refusal(twilio("https://evil.example"), headers, form(TWILIO_FORM), **where) == "bad_signature"


def stripe_refusal(header: str, now: float = 1_700_000_000) -> str:
    config = SourceConfig(provider="stripe", secrets=("whsec_test_secret",))
    return refusal(config, {"stripe-signature": header}, STRIPE_BODY, now)


def test_stripe_vector() -> None:
    config = SourceConfig(provider="stripe", secrets=("whsec_test_secret",))
    for header in (
        f"t=1700000000,v1={STRIPE_GOOD}",
        f"t=1700000000,v1={STRIPE_GOOD},v0={'0' * 64}",
        f"t=1700000000,v0={'0' * 64},v1={STRIPE_GOOD}",
        f"t=1700000000,v1=bad,v1={STRIPE_GOOD}",
        f"t=1700000000,v1={'0' * 64},v1={STRIPE_GOOD}",
        f"v1={STRIPE_GOOD},t=1700000000",
        f"t=1700000000, v1={STRIPE_GOOD.upper()}",
    ):
        verify(config, {"stripe-signature": header}, STRIPE_BODY, 1_700_000_000)


def test_stripe_refusals() -> None:
    assert stripe_refusal("bad_header") == "bad_header"
    assert stripe_refusal(f"t=1700000000,v0={STRIPE_GOOD}") == "bad_header"
    assert stripe_refusal("t=1700000000,v1=bad_signature") == "bad_encoding"
    assert stripe_refusal(f"t=1700000000,v1={'0' * 64}") == "bad_signature"
    assert stripe_refusal(f"v1={STRIPE_GOOD}") == "bad_header"
    assert stripe_refusal(f"t=1700000000,v1={STRIPE_GOOD},t=1700000000") == "bad_header"
    assert stripe_refusal(f"t=1700000001,v1={STRIPE_GOOD}") == "bad_signature"
    assert stripe_refusal(f"t=1700000000,v1={STRIPE_GOOD}", now=1_700_000_301) == "stale_timestamp"
    assert stripe_refusal("t=1700000000" + f",v1={'0' * 64}" * 17) == "bad_header"


def test_daily_signature_uses_milliseconds_and_a_decoded_key() -> None:
    config = SourceConfig(provider="daily", secrets=("AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=",))
    signed = get_provider("daily").sign(config, b'{"test":"test"}', 1_700_000_000)
    assert signed["x-webhook-timestamp"] == "1700000000000"
    assert signed["x-webhook-signature"] == "7r2AvygycUner9WFi9V2OTDap6Zwc6mZcvL0mCyJHus="


def test_calcom_signature_is_bare_hexadecimal_and_a_prefix_is_tolerated() -> None:
    config = SourceConfig(provider="calcom", secrets=("cal-test-secret",))
    body = (
        b'{"triggerEvent":"BOOKING_CREATED","createdAt":"2024-01-15T10:00:00.000Z","payload":{"uid":"booking-uid-123"}}'
    )
    digest = "117ea9c5e5e134c4e173581076e070998e87732e52c5e6dc80a7c6e8a0e9f8f8"
    assert get_provider("calcom").sign(config, body, 0)["x-cal-signature-256"] == digest
    verify(config, {"x-cal-signature-256": digest}, body)
    verify(config, {"x-cal-signature-256": f"sha256={digest}"}, body)
    assert refusal(config, {"x-cal-signature-256": "no-secret-provided"}, body) == "unsigned"


def test_whatsapp_signature_covers_the_escapes_as_sent() -> None:
    config = SourceConfig(provider="whatsapp", secrets=("meta-app-secret",))
    body = (
        rb'{"object":"whatsapp_business_account","entry":[{"id":"0","changes":[{"value":'
        rb'{"text":"caf\u00e9 \ud83d\ude00"},"field":"messages"}]}]}'
    )
    digest = "c8f4aad593be40f92f0159147cce3902dd4cdea9589a341a7bc275b7711ad1b2"
    headers = {"x-hub-signature-256": f"sha256={digest}"}
    verify(config, headers, body)
    rewritten = json.dumps(json.loads(body), ensure_ascii=False, separators=(",", ":")).encode()
    assert refusal(config, headers, rewritten) == "bad_signature"


def test_hook0_and_convoy_signatures_are_a_matter_of_options() -> None:
    hook0 = {"header": "X-Hook0-Signature", "separator": ",", "prefix": "v0=", "timestamp_entry": "t="}
    config = SourceConfig(provider="generic", secrets=("secret",), options=hook0 | {"signed": "{timestamp}.{body}"})
    digest = "1b3d69df55f1e52f05224ba94a5162abeb17ef52cd7f4948c390f810d6a87e98"
    verify(config, {"x-hook0-signature": f"t=1636936200,v0={digest}"}, b"hello !", 1636936200)


def test_paypal_checksum_is_the_unsigned_decimal_of_the_raw_body() -> None:
    body = b'{"amount":"20.00"}'
    expected = f"id-1|2015-05-18T15:45:13Z|4JH86294D6297924G|{zlib.crc32(body)}".encode()
    assert signed_content("id-1", "2015-05-18T15:45:13Z", "4JH86294D6297924G", body) == expected
    assert b"-" not in expected.rpartition(b"|")[2]


@given(key=st.binary(max_size=200), content=st.binary(max_size=300))
@example(key=b"k" * 64, content=b"")
@example(key=b"k" * 65, content=b"")
def test_the_short_way_to_an_hmac_is_an_hmac(key: bytes, content: bytes) -> None:
    assert mac("sha256", "hex", key, content) == hmac.new(key, content, hashlib.sha256).hexdigest()
