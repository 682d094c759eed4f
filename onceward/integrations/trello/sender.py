"""Trello: `x-trello-webhook`, base64 HMAC-SHA1 of the body and the callback URL."""

from __future__ import annotations

from onceward.webhooks.events import Events
from onceward.webhooks.families import Hmac
from onceward.webhooks.handshakes import Reachable
from onceward.webhooks.sender import Sender

SENDER = Sender(
    title="Trello",
    verification=Hmac(header="x-trello-webhook", signed="{body}{url}", algorithm="sha1", encoding="base64"),
    events=Events(id="action.id", type="action.type", ordering="action.data.card.id", data="action", strict=True),
    handshake=Reachable(),
    setup=(
        "Create the webhook with `POST /1/webhooks` and the URL of the source as `callbackURL`, which is signed: "
        "give `--public-url` for it. The secret of the app is the secret of the source."
    ),
    failure="Trello retries three times. An answer of 410 deletes the webhook.",
    samples_from=(
        "zulip/zulip zerver/webhooks/trello/fixtures/creating_card.json",
        "zulip/zulip zerver/webhooks/trello/fixtures/renaming_card.json",
    ),
    facts=("n8n-io/n8n Trello (third party)",),
    unconfirmed=(
        "the signature",
        "retries",
    ),
)
