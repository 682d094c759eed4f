"""Telegram Bot API: `X-Telegram-Bot-Api-Secret-Token`, the secret itself."""

from __future__ import annotations

from typing import Any

from onceward.webhooks.events import Events
from onceward.webhooks.families import Token
from onceward.webhooks.payload import as_object
from onceward.webhooks.provider import ProviderReply, Request
from onceward.webhooks.sender import Sender


def _kind(request: Request, value: Any) -> str:
    """Return the name of the field beside `update_id`."""
    return next((name for name in as_object(value) if name != "update_id"), "")


SENDER = Sender(
    title="Telegram Bot API",
    verification=Token(header="x-telegram-bot-api-secret-token"),
    events=Events(id="update_id", type=_kind, ordering=("message.chat.id", "callback_query.from.id"), strict=True),
    accepted_reply=ProviderReply(status=200),
    published_addresses="149.154.160.0/20 and 91.108.4.0/22 (https://core.telegram.org/bots/webhooks)",
    setup="Call `setWebhook` with the URL of the source and a `secret_token`: it is the secret of the source.",
    failure=(
        "Telegram retries with a delay that doubles up to about a minute, and obeys `Retry-After`. 410 for 23 "
        "hours removes the webhook. It sends from 149.154.160.0/20 and 91.108.4.0/22."
    ),
    notes="The answer may contain a call of the Bot API, so it is empty.",
    facts=("tdlib/telegram-bot-api WebhookActor",),
    unconfirmed=("the addresses",),
)
