"""Box: `Box-Signature-Primary` and `-Secondary`, base64 HMAC-SHA256 of body and timestamp."""

from __future__ import annotations

from onceward.webhooks.events import Events, Header
from onceward.webhooks.families import Hmac
from onceward.webhooks.sender import Sender

SENDER = Sender(
    title="Box",
    verification=Hmac(
        header=("box-signature-primary", "box-signature-secondary"),
        signed="{body}{timestamp}",
        encoding="base64",
        timestamp="box-delivery-timestamp",
        timestamp_unit="iso",
    ),
    sample_headers={"box-signature-version": "1", "box-signature-algorithm": "HmacSHA256"},
    tolerance_s=600,
    events=Events(
        id=("id", Header("Box-Delivery-Id")), type="trigger", ordering="source.id", data="source", strict=True
    ),
    setup=(
        "In the app, under Webhooks, create one (v2) with the URL of the source, and generate the primary and the "
        "secondary signature key: both are secrets of the source."
    ),
    failure="Box retries up to ten times.",
    facts=("box/box-python-sdk managers/webhooks.py (signature, rotation, vector)",),
    unconfirmed=(
        "the field `id`",
        "retries",
    ),
)
