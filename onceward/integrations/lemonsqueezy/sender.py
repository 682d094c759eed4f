"""Lemon Squeezy: `X-Signature`, hexadecimal HMAC-SHA256 of the body."""

from __future__ import annotations

from onceward.webhooks.events import Derive, Events, Header
from onceward.webhooks.families import Hmac
from onceward.webhooks.sender import Sender

SENDER = Sender(
    title="Lemon Squeezy",
    verification=Hmac(header="x-signature"),
    events=Events(
        id=Derive("meta.event_name", "data.type", "data.id", "data.attributes.updated_at"),
        type=(Header("X-Event-Name"), "meta.event_name"),
        ordering="data.id",
        data="data",
        strict_type=True,
    ),
    setup=("Under Settings, Webhooks, add the URL of the source and a signing secret: it is the secret of the source."),
    failure="Lemon Squeezy wants 200 and retries three times.",
    facts=("lmsqueezy/nextjs-billing src/app/api/webhook/route.ts (signature)",),
    unconfirmed=(
        "the header `X-Event-Name`",
        "retries",
    ),
)
