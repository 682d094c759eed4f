"""Cloudflare Stream: `Webhook-Signature: time=..,sig1=..`, HMAC-SHA256 of `time.body`."""

from __future__ import annotations

from onceward.webhooks.events import Derive, Events
from onceward.webhooks.families import Hmac
from onceward.webhooks.sender import Sender

SENDER = Sender(
    title="Cloudflare Stream",
    verification=Hmac(
        header="webhook-signature", signed="{timestamp}.{body}", separator=",", prefix="sig1=", timestamp_entry="time="
    ),
    events=Events(id=Derive("uid", "status.state", "modified"), type="status.state", ordering="uid", strict_type=True),
    setup=(
        "`PUT /accounts/ACCOUNT/stream/webhook` with the URL of the source as `notificationUrl`. The `secret` in "
        "the answer is the secret of the source. An account has one webhook."
    ),
    facts=("cloudflare/cloudflare-docs stream/using-webhooks.mdx",),
    unconfirmed=("retries",),
)
