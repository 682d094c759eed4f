"""Discord webhook events: `X-Signature-Ed25519` over timestamp and body with the public key of the app."""

from __future__ import annotations

from onceward.webhooks.events import Derive, Events
from onceward.webhooks.families import PublicKey
from onceward.webhooks.handshakes import TrialRequest
from onceward.webhooks.provider import ProviderReply
from onceward.webhooks.sender import Sender

SENDER = Sender(
    title="Discord webhook events",
    verification=PublicKey(header="x-signature-ed25519", signed="{timestamp}{body}", timestamp="x-signature-timestamp"),
    events=Events(
        id=Derive("event.type", "event.timestamp", "event.data"), type="event.type", data="event.data", strict_type=True
    ),
    handshake=TrialRequest(when={"type": "0"}, content=b'"type"', status=204),
    accepted_reply=ProviderReply(status=204),
    setup=(
        "In the Developer Portal, under Webhooks, enter the URL of the source. The public key of the app is the "
        "secret of the source."
    ),
    failure=(
        "Discord wants 204 within 3 s and retries for up to ten minutes. It sends wrong signatures on purpose and "
        "wants 401 for them."
    ),
    samples_from=("discord/discord-api-docs developers/events/webhook-events.mdx",),
    facts=("discord/discord-api-docs events/webhook-events",),
)
