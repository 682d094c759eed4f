"""The senders' own libraries accept what we sign and refuse what was changed, as we do.

The second implementation (`recipes.py`) may repeat a mistake of ours; a library of the sender does not.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from urllib.parse import parse_qsl

import pytest
from cryptography.hazmat.primitives import serialization

from onceward.webhooks.provider import Request
from tests.senders.test_every_sender import refusal
from tests.senders.world import PUBLIC_URL, first_type, ours, secret_of, source

Accepts = Callable[[Request, str], object]
"""Calls the library with a request and the secret. An exception or a false value means that it refuses the request."""


def adyen(request: Request, secret: str) -> object:
    import orjson
    from Adyen.util import is_valid_hmac_notification

    return is_valid_hmac_notification(orjson.loads(request.body), secret)


def adyen_platforms(request: Request, secret: str) -> object:
    from Adyen.util import is_valid_hmac_payload

    return is_valid_hmac_payload(request.headers["hmacsignature"], secret, request.body)


def box(request: Request, secret: str) -> object:
    from box_sdk_gen.managers.webhooks import WebhooksManager

    return WebhooksManager.validate_message(request.body.decode(), dict(request.headers), secret)


def braintree(request: Request, secret: str) -> object:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it warns about itself when it is imported
        from braintree import BraintreeGateway, Configuration, Environment

    fields = dict(parse_qsl(request.body.decode()))
    gateway = BraintreeGateway(Configuration(Environment.Sandbox, "merchant", "pk1", secret))
    return gateway.webhook_notification.parse(fields["bt_signature"], fields["bt_payload"])


def cloudinary(request: Request, secret: str) -> object:
    import cloudinary
    from cloudinary.utils import verify_notification_signature

    cloudinary.config(api_secret=secret)
    headers = request.headers
    return verify_notification_signature(
        request.body.decode(), headers["x-cld-timestamp"], headers["x-cld-signature"], algorithm="sha1"
    )


def discord(request: Request, secret: str) -> object:
    from discord_interactions import verify_key

    key = serialization.load_pem_private_key(secret.encode(), None).public_key()
    public = key.public_bytes(serialization.Encoding.Raw, serialization.PublicFormat.Raw).hex()
    headers = request.headers
    return verify_key(request.body, headers["x-signature-ed25519"], headers["x-signature-timestamp"], public)


def gocardless(request: Request, secret: str) -> object:
    from gocardless_pro.webhooks import parse

    return parse(request.body.decode(), secret, request.headers["webhook-signature"])


def hubspot(request: Request, secret: str) -> object:
    from hubspot.utils.signature import Signature

    headers = request.headers
    return Signature.is_valid(
        headers["x-hubspot-signature-v3"],
        secret,
        request.body.decode(),
        PUBLIC_URL + request.url_path,
        signature_version="v3",
        timestamp=headers["x-hubspot-request-timestamp"],
    )


def line(request: Request, secret: str) -> object:
    from linebot.v3.webhook import SignatureValidator

    return SignatureValidator(secret).validate(request.body.decode(), request.headers["x-line-signature"])


def lithic(request: Request, secret: str) -> object:
    from lithic import Lithic

    client = Lithic(api_key="none", base_url="http://localhost")
    return client.webhooks.verify_signature(request.body, dict(request.headers), secret=secret) is None


def livekit(request: Request, secret: str) -> object:
    from livekit.api import TokenVerifier, WebhookReceiver

    return WebhookReceiver(TokenVerifier("APIxZj9kQwErTy", secret)).receive(
        request.body.decode(), request.headers["authorization"]
    )


def messagebird(request: Request, secret: str) -> object:
    from messagebird.request_validator import RequestValidator

    return RequestValidator(secret).validate_signature(
        request.headers["messagebird-signature-jwt"], PUBLIC_URL + request.url_path, request.body
    )


def openai(request: Request, secret: str) -> object:
    from openai import OpenAI

    return OpenAI(api_key="none").webhooks.unwrap(request.body, dict(request.headers), secret=secret)


def plivo(request: Request, secret: str) -> object:
    from plivo.utils import validate_v3_signature

    headers, fields = request.headers, dict(parse_qsl(request.body.decode(), keep_blank_values=True))
    nonce, signature = headers["x-plivo-signature-v3-nonce"], headers["x-plivo-signature-v3"]
    return validate_v3_signature("POST", PUBLIC_URL + request.url_path, nonce, secret, signature, fields)


def pusher(request: Request, secret: str) -> object:
    from pusher import Pusher

    headers = request.headers
    client = Pusher(app_id="1", key=headers["x-pusher-key"], secret=secret, cluster="eu")
    return client.validate_webhook(headers["x-pusher-key"], headers["x-pusher-signature"], request.body.decode())


def razorpay(request: Request, secret: str) -> object:
    from razorpay.utility.utility import Utility

    return Utility().verify_webhook_signature(request.body.decode(), request.headers["x-razorpay-signature"], secret)


def replicate(request: Request, secret: str) -> object:
    from replicate.webhook import Webhooks, WebhookSigningSecret

    key = WebhookSigningSecret(key=secret)
    Webhooks.validate(headers=dict(request.headers), body=request.body.decode(), secret=key, tolerance=300)
    return True


def resend(request: Request, secret: str) -> object:
    from resend import Webhooks

    headers = {name: request.headers[f"svix-{name}"] for name in ("id", "timestamp", "signature")}
    return Webhooks.verify({"payload": request.body.decode(), "headers": headers, "webhook_secret": secret})  # pyright: ignore[reportArgumentType]


def square(request: Request, secret: str) -> object:
    from square.utils.webhooks_helper import verify_signature

    return verify_signature(
        request_body=request.body.decode(),
        signature_header=request.headers["x-square-hmacsha256-signature"],
        signature_key=secret,
        notification_url=PUBLIC_URL + request.url_path,
    )


def workos(request: Request, secret: str) -> object:
    from workos.webhooks._verification import verify_header

    signature = request.headers["workos-signature"]
    return verify_header(event_body=request.body, event_signature=signature, secret=secret) is None


LIBRARIES: dict[str, Accepts] = {
    "adyen": adyen,
    "adyen_platforms": adyen_platforms,
    "box": box,
    "braintree": braintree,
    "cloudinary": cloudinary,
    "discord": discord,
    "discord_events": discord,
    "gocardless": gocardless,
    "hubspot_webhooks": hubspot,
    "line": line,
    "lithic": lithic,
    "livekit": livekit,
    "messagebird": messagebird,
    "openai_webhooks": openai,
    "plivo": plivo,
    "pusher": pusher,
    "razorpay": razorpay,
    "replicate": replicate,
    "resend": resend,
    "square": square,
    "workos": workos,
}


@pytest.mark.parametrize("name", LIBRARIES)
def test_the_library_of_the_sender_decides_as_we_do(name: str) -> None:
    now = time.time()
    request, secret = ours(name, first_type(name), now=now), secret_of(name)
    assert refusal(source(name), request, now) is None
    assert LIBRARIES[name](request, secret), "its library refuses what we sign"
    if name != "adyen":  # it signs only some fields of the body
        changed = replace(request, body=request.body.replace(b"1", b"7"))
        assert changed.body != request.body
        accepted: object = False
        with suppress(Exception):
            accepted = LIBRARIES[name](changed, secret)
        assert not accepted, "its library accepts a changed body"
        assert refusal(source(name), changed, now) is not None
