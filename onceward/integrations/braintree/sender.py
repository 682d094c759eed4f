"""Braintree: a form with `bt_payload`, which is XML in base64, and `bt_signature`, an HMAC-SHA1 of it."""

from __future__ import annotations

import base64
import hmac
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, cast
from urllib.parse import urlencode
from xml.etree import ElementTree

import orjson
from pydantic import Field

from onceward.webhooks.events import Derive, Events
from onceward.webhooks.families.encoding import decode, decode_key
from onceward.webhooks.families.template import query_value
from onceward.webhooks.handshakes import NO_SECRET, Handshake
from onceward.webhooks.payload import as_object, read_form, read_object
from onceward.webhooks.provider import NoOptions, ProviderReply, ReceivedItem, Rejected, Request, SourceConfig
from onceward.webhooks.sender import Sender

CHALLENGE: Final = re.compile(r"[a-f0-9]{20,32}")
DEEPEST: Final = 40
MOST_PAIRS: Final = 16


class BraintreeOptions(NoOptions):
    """Which of the keys of an account signs."""

    public_key: str = Field(
        min_length=1, description="the public key that belongs to the private key", examples=["pk1"]
    )


@dataclass(frozen=True, kw_only=True)
class BraintreeSignature:
    """The form field `bt_signature` has pairs `public key|HMAC-SHA1 in hex`, joined by `&`.

    The HMAC is of the field `bt_payload`, and its key is the SHA-1 of the private key, which is the secret of the
    source. The pair of the option `public_key` counts.
    """

    summary: str = "HMAC-SHA1 of a form field"
    signature_headers: tuple[str, ...] = ()

    @property
    def covers_body(self) -> bool:
        return True

    def decode_secret(self, secret: str) -> bytes:
        return decode_key("sha1", secret)

    def check(self, config: SourceConfig) -> None:
        """Every configuration can work: a source without a secret accepts nothing."""

    def verify(self, config: SourceConfig, request: Request, now: float) -> None:
        signature, payload = _fields(request.body)
        if not config.keys:
            raise Rejected("no_secret", "the source has no secret, so no request can be verified")
        pairs = [pair.partition("|") for pair in signature.split("&")[:MOST_PAIRS]]
        sent = [decode("hex", made) for name, _, made in pairs if name == config.settings.public_key]
        if not any(sent):
            raise Rejected("bad_header", "field bt_signature has no signature of the public key of this source")
        # Its library also accepts a signature of the payload with a line break at the end.
        for key in config.keys:
            for content in (payload, f"{payload}\n"):
                made = hmac.digest(key, content.encode("utf-8", "surrogatepass"), "sha1")
                if any(each is not None and hmac.compare_digest(made, each) for each in sent):
                    return
        raise Rejected("bad_signature", "field bt_signature was not made with a secret of this source")

    def sign(self, config: SourceConfig, body: bytes, now: float, **extra: str) -> dict[str, str]:
        return {}

    def complete(self, config: SourceConfig, body: bytes, now: float) -> tuple[bytes, str]:
        payload = dict(read_form(body)).get("bt_payload", "")
        made = hmac.digest(config.keys[0], payload.encode(), "sha1").hex() if config.keys else ""
        form = {"bt_signature": f"{config.settings.public_key}|{made}", "bt_payload": payload}
        return urlencode(form).encode(), ""


def _fields(body: bytes) -> tuple[str, str]:
    fields = read_form(body)
    if sorted(name for name, _ in fields) != ["bt_payload", "bt_signature"]:
        raise Rejected("bad_body", "the form must have the fields bt_signature and bt_payload and no other")
    found = dict(fields)
    return found["bt_signature"], found["bt_payload"]


class Challenge(Handshake):
    """`GET ?bt_challenge=`, with which Braintree checks the address."""

    unsigned = True
    note = "`GET ?bt_challenge=` is answered with the public key and the HMAC of the challenge."

    def answer(self, config: SourceConfig, request: Request) -> ProviderReply | None:
        challenge = query_value(request, "bt_challenge") if request.method == "GET" else ""
        if not challenge:
            return None
        if not CHALLENGE.fullmatch(challenge):
            raise Rejected("bad_body", "bt_challenge is not 20 to 32 hexadecimal digits")
        if not config.keys:
            raise Rejected("no_secret", NO_SECRET)
        made = hmac.digest(config.keys[0], challenge.encode(), "sha1").hex()
        return ProviderReply(f"{config.settings.public_key}|{made}".encode())


@dataclass(frozen=True, kw_only=True, eq=False)
class BraintreeSender(Sender):
    """A sender of XML. The payload of an event is the notification as JSON, with `_` for `-` in names."""

    def parse(self, config: SourceConfig, request: Request) -> list[ReceivedItem]:
        _, payload = _fields(request.body)
        notification = orjson.dumps(read_notification(payload))
        return self.events.read(replace(request, headers={}, body=notification))

    def encode(self, payload: Any) -> bytes:
        root = ElementTree.Element("notification")
        _write(root, as_object(payload))
        return urlencode({"bt_payload": base64.encodebytes(ElementTree.tostring(root)).decode()}).encode()


def read_notification(payload: str) -> dict[str, Any]:
    """Return a notification in base64 as an object. Raise Rejected if it is not XML, or if it declares entities."""
    try:
        text = base64.b64decode(payload).decode()
        if "<!" in text:
            raise Rejected("bad_body", "the XML has a declaration")
        found = _value(ElementTree.fromstring(text), 0)
    except (ValueError, ElementTree.ParseError):
        raise Rejected("bad_body", "bt_payload is not XML in base64") from None
    return read_object(orjson.dumps(found)).value


def _value(element: ElementTree.Element, depth: int) -> Any:
    if depth > DEEPEST:
        raise Rejected("bad_body", f"the XML is nested deeper than {DEEPEST} levels")
    kind, text = element.get("type"), (element.text or "").strip()
    if element.get("nil") == "true":
        return None
    if kind == "array":
        return [_value(child, depth + 1) for child in element]
    if len(element):
        return {child.tag.replace("-", "_"): _value(child, depth + 1) for child in element}
    if kind == "boolean":
        return text == "true"
    return int(text) if kind == "integer" else text


def _write(parent: ElementTree.Element, values: Mapping[str, Any]) -> None:
    for name, value in values.items():
        element = ElementTree.SubElement(parent, name.replace("_", "-"))
        match value:
            case bool():
                element.set("type", "boolean")
                element.text = str(value).lower()
            case int():
                element.set("type", "integer")
                element.text = str(value)
            case None:
                element.set("nil", "true")
            case dict():
                _write(element, cast("dict[str, Any]", value))
            case list():
                element.set("type", "array")
                for each in cast("list[Any]", value):
                    _write(element, {"item": each})
            case _:
                element.text = str(value)


SENDER = BraintreeSender(
    title="Braintree",
    verification=BraintreeSignature(),
    events=Events(
        id=Derive("kind", "timestamp", "subject", "source_merchant_id"),
        type="kind",
        ordering=("subject.subscription.id", "subject.dispute.id", "subject.transaction.id"),
        data="subject",
        strict_type=True,
    ),
    form="fields",
    handshake=Challenge(),
    options_model=BraintreeOptions,
    setup=(
        "In the Control Panel, under Settings, API, Webhooks, add the URL of the source. The private key of the "
        "account is the secret of the source, and its public key is an option."
    ),
    notes="A notification is XML: its payload is the same as JSON, with `_` for `-` in names.",
    samples_from=("braintree/braintree_python braintree/webhook_testing_gateway.py",),
    facts=(
        "braintree/braintree_python braintree/webhook_notification_gateway.py (signature, challenge)",
        "braintree/braintree_python braintree/webhook_testing_gateway.py (fields)",
    ),
    unconfirmed=("retries",),
)
