"""Twitch EventSub: `Twitch-Eventsub-Message-Signature: sha256=..`, HMAC-SHA256 of id, timestamp and body."""

from __future__ import annotations

from onceward.webhooks.events import Events, Header
from onceward.webhooks.families import Hmac
from onceward.webhooks.handshakes import EchoField
from onceward.webhooks.sender import Sender

SENDER = Sender(
    title="Twitch EventSub",
    verification=Hmac(
        header="twitch-eventsub-message-signature",
        signed="{id}{timestamp}{body}",
        prefix="sha256=",
        timestamp="twitch-eventsub-message-timestamp",
        timestamp_unit="iso",
        signed_id_header="twitch-eventsub-message-id",
    ),
    events=Events(
        id=Header("Twitch-Eventsub-Message-Id"),
        type="subscription.type",
        ordering=("event.broadcaster_user_id", "subscription.id"),
        data="event",
        strict=True,
    ),
    handshake=EchoField(path="challenge", header=("twitch-eventsub-message-type", "webhook_callback_verification")),
    setup=(
        "Create the subscription through the API with the URL of the source as callback and a secret: it is the "
        "secret of the source."
    ),
    failure=(
        "Twitch wants a 2xx, retries, and revokes a subscription that fails too often: the revocation is an event "
        "whose `subscription.status` says why."
    ),
    facts=("twitchdev/twitch-cli internal/events (signature, handshake)",),
    unconfirmed=("retries",),
)
