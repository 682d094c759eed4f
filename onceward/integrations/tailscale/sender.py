"""Tailscale: `Tailscale-Webhook-Signature`, an HMAC of timestamp and body."""

from __future__ import annotations

from onceward.webhooks.events import Derive, Events
from onceward.webhooks.families import Hmac
from onceward.webhooks.sender import Sender

SENDER = Sender(
    title="Tailscale",
    verification=Hmac(
        header="tailscale-webhook-signature",
        signed="{timestamp}.{body}",
        separator=",",
        prefix="v1=",
        timestamp_entry="t=",
    ),
    events=Events(
        items=".",
        body="json",
        id=Derive("type", "timestamp", "tailnet", "data"),
        type="type",
        ordering="data.nodeID",
        data="data",
    ),
    setup=(
        "In the console of Tailscale, add a webhook with the URL of the source. The signing secret shown there is "
        "the secret of the source."
    ),
    unconfirmed=(
        "header, text and encoding of the signature",
        "the unit of the timestamp",
        "fields of events",
        "retries",
    ),
)
