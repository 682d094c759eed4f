"""LINE: `X-Line-Signature`, base64 HMAC-SHA256 of the body with the channel secret."""

from __future__ import annotations

from onceward.webhooks.events import Events
from onceward.webhooks.families import Hmac
from onceward.webhooks.sender import Sender

SENDER = Sender(
    title="LINE",
    verification=Hmac(header="x-line-signature", encoding="base64"),
    events=Events(items="events", id="webhookEventId", type="type", ordering=("source.userId", "source.groupId")),
    setup=(
        "In the LINE Developers console, under Messaging API, set the webhook URL. The channel secret is the "
        "secret of the source."
    ),
    failure=(
        "LINE redelivers if you turn redelivery on (`deliveryContext.isRedelivery`). A test has no events and is "
        "stored as the event `empty`."
    ),
    facts=("line/line-bot-sdk-python linebot/v3/webhook.py (signature, vector)",),
    unconfirmed=("redelivery",),
)
