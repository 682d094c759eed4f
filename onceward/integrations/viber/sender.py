"""Viber: `X-Viber-Content-Signature`, hexadecimal HMAC-SHA256 of the body with the auth token."""

from __future__ import annotations

from onceward.webhooks.events import Events
from onceward.webhooks.families import Hmac
from onceward.webhooks.sender import Sender

SENDER = Sender(
    title="Viber",
    verification=Hmac(header="x-viber-content-signature"),
    events=Events(
        id="message_token", id_per_type=True, type="event", ordering=("sender.id", "user_id"), strict_type=True
    ),
    setup=("Call `set_webhook` with the URL of the source. The auth token of the bot is the secret of the source."),
    failure="Viber retries failed deliveries.",
    notes="`set_webhook` sends the event `webhook`, which must be answered with 200: it is an ordinary event.",
    facts=("Viber/viber-bot-python viberbot/api/api.py (signature)",),
    unconfirmed=(
        "the fields `event` and `message_token`",
        "retries",
    ),
)
