"""Adyen standard notifications: an HMAC of some fields in each item, the key in hexadecimal."""

from __future__ import annotations

import base64
import hmac
from dataclasses import dataclass
from typing import Any, Final

import orjson

from onceward.webhooks.events import Derive, Events
from onceward.webhooks.families.encoding import decode, decode_key
from onceward.webhooks.paths import text_at, value_at
from onceward.webhooks.payload import as_list, as_object, read_object
from onceward.webhooks.provider import ProviderReply, Rejected, Request, SourceConfig
from onceward.webhooks.sender import Sender

FIELDS: Final = (
    "pspReference",
    "originalReference",
    "merchantAccountCode",
    "merchantReference",
    "amount.value",
    "amount.currency",
    "eventCode",
    "success",
)


@dataclass(frozen=True, kw_only=True)
class ItemSignatures:
    """`additionalData.hmacSignature` of every item is the base64 HMAC-SHA256 of eight of its fields, joined by colons.

    The fields are the references, the merchant account, the amount, `eventCode` and `success`. The key is the
    secret, decoded from hexadecimal.
    """

    summary: str = "HMAC-SHA256 of some fields"
    proof_field: str = "notificationItems.0.NotificationRequestItem.additionalData.hmacSignature"
    signature_headers: tuple[str, ...] = ()

    @property
    def covers_body(self) -> bool:
        return False

    def decode_secret(self, secret: str) -> bytes:
        return decode_key("hex", secret)

    def check(self, config: SourceConfig) -> None:
        """Every configuration can work: a source without a secret accepts nothing."""

    def verify(self, config: SourceConfig, request: Request, now: float) -> None:
        if not config.keys:
            raise Rejected("no_secret", "the source has no secret, so no request can be verified")
        items = _items(request.body)
        if not items:
            raise Rejected("bad_body", "the body has no notificationItems")
        for each in items:
            sent = decode("base64", text_at(each, "additionalData.hmacSignature"))
            if not sent:
                raise Rejected("unsigned", "an item has no additionalData.hmacSignature: turn HMAC on at the sender")
            text = signed_text(each)
            if not any(hmac.compare_digest(hmac.digest(key, text, "sha256"), sent) for key in config.keys):
                raise Rejected("bad_signature", "an item was not signed with a secret of this source")

    def sign(self, config: SourceConfig, body: bytes, now: float, **extra: str) -> dict[str, str]:
        return {}

    def complete(self, config: SourceConfig, body: bytes, now: float) -> tuple[bytes, str]:
        sent = read_object(body).value
        for each in as_list(sent.get("notificationItems")):
            item = as_object(as_object(each).get("NotificationRequestItem"))
            made = hmac.digest(config.keys[0], signed_text(item), "sha256") if config.keys else b""
            item["additionalData"] = {**as_object(item.get("additionalData")), "hmacSignature": _base64(made)}
        return orjson.dumps(sent), ""


def signed_text(item: dict[str, Any]) -> bytes:
    """Return what the signature of an item covers. A missing field is empty."""
    return ":".join(_text(value_at(item, path)) for path in FIELDS).encode("utf-8", "surrogatepass")


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return "" if value is None else str(value)


def _items(body: bytes) -> list[dict[str, Any]]:
    items = as_list(read_object(body).value.get("notificationItems"))
    return [as_object(as_object(each).get("NotificationRequestItem")) for each in items]


def _base64(raw: bytes) -> str:
    return base64.b64encode(raw).decode()


SENDER = Sender(
    title="Adyen payments",
    verification=ItemSignatures(),
    events=Events(
        items="notificationItems",
        id=Derive(
            "NotificationRequestItem.pspReference",
            "NotificationRequestItem.eventCode",
            "NotificationRequestItem.success",
        ),
        type="NotificationRequestItem.eventCode",
        ordering="NotificationRequestItem.merchantReference",
        data="NotificationRequestItem",
        strict_type=True,
    ),
    accepted_reply=ProviderReply(b"[accepted]"),
    setup=(
        "In the Customer Area, under Developers, Webhooks, create a standard webhook (JSON) with the URL of "
        "the source and generate an "
        "HMAC key: it is the secret of the source, in hexadecimal. For platforms and banking use `adyen_platforms`."
    ),
    failure="Adyen wants `[accepted]` or a 2xx within 10 s and retries for seven days.",
    facts=("Adyen/adyen-python-api-library Adyen/util.py (signature, vector)",),
    unconfirmed=("the answer", "retries"),
)
