"""Vercel: `x-vercel-signature`, hexadecimal HMAC-SHA1 of the body."""

from __future__ import annotations

from onceward.webhooks.events import Events
from onceward.webhooks.families import Hmac
from onceward.webhooks.sender import Sender

SENDER = Sender(
    title="Vercel",
    verification=Hmac(header="x-vercel-signature", algorithm="sha1"),
    events=Events(ordering="payload.deployment.id", data="payload", strict=True),
    setup=(
        "In the team's settings, under Webhooks, add the URL of the source. The secret is shown once: it is the "
        "secret of the source."
    ),
    failure="Vercel retries for 24 hours.",
    facts=("hookdeck/webhook-skills (third party)",),
    unconfirmed=(
        "the signature: another list says SHA-256 with a timestamp",
        "retries",
    ),
)
