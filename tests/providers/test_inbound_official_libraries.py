"""What we sign their libraries accept, and what their libraries sign we accept."""

from __future__ import annotations

import base64
import time
from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qsl

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from slack_sdk.signature import SignatureVerifier
from standardwebhooks.webhooks import Webhook as StandardWebhook
from stripe import SignatureVerificationError, WebhookSignature
from svix.webhooks import Webhook as SvixWebhook
from twilio.request_validator import RequestValidator

from onceward.webhooks.provider import Rejected, Request, SourceConfig
from onceward.webhooks.registry import get_provider

SECRET = "whsec_" + base64.b64encode(bytes(range(32))).decode()
STRIPE = SourceConfig(provider="stripe", secrets=(SECRET,))
texts = st.text(st.characters(codec="utf-8"), max_size=60)
quick = settings(max_examples=60, deadline=None)


def post(headers: dict[str, str], body: bytes, path: str = "/", query: str = "") -> Request:
    return Request("POST", path, query, headers, body)


@quick
@given(text=texts)
def test_stripe_accepts_our_signature(text: str) -> None:
    header = get_provider("stripe").sign(STRIPE, text.encode(), time.time())["stripe-signature"]
    assert WebhookSignature.verify_header(text, header, SECRET, 300)


@quick
@given(text=texts)
def test_we_accept_the_signature_of_stripe(text: str) -> None:
    now = int(time.time())
    mac = WebhookSignature._compute_signature(f"{now}.{text}", SECRET)
    request = post({"stripe-signature": f"t={now},v1={mac}"}, text.encode())
    get_provider("stripe").verify(STRIPE, request, now)


def test_stripe_and_we_refuse_the_same_tampering() -> None:
    header = get_provider("stripe").sign(STRIPE, b"{}", time.time())["stripe-signature"]
    with pytest.raises(SignatureVerificationError):
        WebhookSignature.verify_header("{ }", header, SECRET, 300)
    with pytest.raises(Rejected):
        get_provider("stripe").verify(STRIPE, post({"stripe-signature": header}, b"{ }"), time.time())


@pytest.mark.parametrize("library", [StandardWebhook, SvixWebhook])
@pytest.mark.parametrize("provider", ["standard", "formbricks"])
def test_standard_webhooks_agree_in_both_directions(library: Any, provider: str) -> None:
    config, ours = SourceConfig(provider=provider, secrets=(SECRET,)), get_provider(provider)
    body = '{"type":"user.created","data":{"name":"Zoë"}}'
    library(SECRET).verify(body, ours.sign(config, body.encode(), time.time(), event_id="msg_1"))
    moment = datetime.now(UTC)
    headers = {
        "webhook-id": "msg_2",
        "webhook-timestamp": str(int(moment.timestamp())),
        "webhook-signature": library(SECRET).sign("msg_2", moment, body),
    }
    ours.verify(config, post(headers, body.encode()), time.time())


@quick
@given(text=texts)
def test_slack_agrees_in_both_directions(text: str) -> None:
    config, ours = SourceConfig(provider="slack", secrets=("8f742231b10e8888",)), get_provider("slack")
    verifier = SignatureVerifier("8f742231b10e8888")
    headers = ours.sign(config, text.encode(), time.time())
    assert verifier.is_valid_request(text, headers)
    now = str(int(time.time()))
    theirs = verifier.generate_signature(timestamp=now, body=text) or ""
    ours.verify(
        config,
        post({"x-slack-signature": theirs, "x-slack-request-timestamp": now}, text.encode()),
        time.time(),
    )


class Fields(dict[str, list[str]]):
    """A form in the shape Twilio's library takes from web frameworks."""

    def getlist(self, name: str) -> list[str]:
        return self[name]


@quick
@given(
    fields=st.dictionaries(texts.filter(bool), st.lists(texts, min_size=1, max_size=3), max_size=5),
    base=st.sampled_from(["https://a.example", "https://a.example:443", "http://a.example:8080/hooks"]),
    query=st.sampled_from(["", "x=1&y=O%27Hara", "a=%20b"]),
)
def test_twilio_agrees_in_both_directions(fields: dict[str, list[str]], base: str, query: str) -> None:
    config = SourceConfig(provider="twilio", secrets=("token-1",), public_url=base)
    ours, theirs = get_provider("twilio"), RequestValidator("token-1")
    body = ours.encode(fields)
    decoded = Fields()
    for name, value in parse_qsl(body.decode(), keep_blank_values=True):
        decoded.setdefault(name, []).append(value)
    url = f"{base}/webhooks/twilio" + (f"?{query}" if query else "")
    headers = ours.sign(config, body, time.time(), path="/webhooks/twilio", query=query)
    assert theirs.validate(url, decoded, headers["x-twilio-signature"])
    for algorithm in ("HMAC_SHA1", "HMAC_SHA256"):
        signed = {
            "content-type": "application/x-www-form-urlencoded",
            "x-twilio-signature": theirs.compute_signature(url, decoded, algorithm),
            "x-twilio-webhooks-signature-settings": f"key=shared_1,algorithm={algorithm}",
        }
        ours.verify(config, post(signed, body, "/webhooks/twilio", query), time.time())
