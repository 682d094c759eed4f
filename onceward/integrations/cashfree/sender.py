"""Cashfree: `x-webhook-signature`, base64 HMAC-SHA256 of timestamp and body with the client secret."""

from __future__ import annotations

from onceward.webhooks.events import Derive, Events
from onceward.webhooks.families import Hmac
from onceward.webhooks.sender import Sender

SENDER = Sender(
    title="Cashfree",
    verification=Hmac(
        header="x-webhook-signature",
        signed="{timestamp}{body}",
        encoding="base64",
        timestamp="x-webhook-timestamp",
        timestamp_unit="ms",
    ),
    events=Events(
        id=Derive("type", "event_time", "data"),
        type="type",
        ordering="data.order.order_id",
        data="data",
        strict_type=True,
    ),
    setup=(
        "In the dashboard, under Developers, Webhooks, add the URL of the source. The client secret is the secret "
        "of the source."
    ),
    failure="Cashfree retries; duplicates are possible.",
    facts=("cashfree.com/docs webhook-signature",),
    unconfirmed=(
        "the timestamp is in milliseconds",
        "the field `type`",
        "retries",
    ),
)
