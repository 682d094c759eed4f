"""Adyen for Platforms, Banking, Management: `HmacSignature`, base64 HMAC-SHA256 of the body, the key in hexadecimal."""

from __future__ import annotations

from onceward.webhooks.events import Derive, Events
from onceward.webhooks.families import Hmac
from onceward.webhooks.sender import Sender

SENDER = Sender(
    title="Adyen for Platforms, Banking, Management",
    verification=Hmac(header="hmacsignature", encoding="base64", key_encoding="hex"),
    events=Events(
        id=Derive("type", "data.id", "data.status", "timestamp"),
        type="type",
        ordering="data.id",
        data="data",
        strict_type=True,
    ),
    setup=(
        "In the Customer Area, under Developers, Webhooks, create a webhook with the URL of the source and "
        "generate an HMAC key: it is the secret of the source, in hexadecimal. For payments use `adyen`."
    ),
    failure="Adyen wants a 2xx within 10 s and retries for 30 days.",
    facts=("Adyen/adyen-python-api-library Adyen/util.py (signature, vector)",),
    unconfirmed=(
        "name of the header",
        "the field `data.id`",
        "retries",
    ),
)
