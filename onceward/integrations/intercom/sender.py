"""Intercom: `X-Hub-Signature: sha1=..`, HMAC-SHA1 of the body with the client secret."""

from __future__ import annotations

from onceward.webhooks.events import Events
from onceward.webhooks.families import Hmac
from onceward.webhooks.sender import Sender

SENDER = Sender(
    title="Intercom",
    verification=Hmac(header="x-hub-signature", algorithm="sha1", prefix="sha1="),
    events=Events(type="topic", ordering="data.item.id", data="data.item", strict=True),
    setup=(
        "In the Developer Hub, under Webhooks, enter the URL of the source and choose topics. The client secret "
        "is the secret of the source."
    ),
    failure="Intercom retries once, after a minute.",
    samples_from=(
        "zulip/zulip zerver/webhooks/intercom/fixtures/contact_user_created.json",
        "zulip/zulip zerver/webhooks/intercom/fixtures/conversation_user_created.json",
    ),
    facts=("webhooks.fyi (third party)",),
    unconfirmed=(
        "the signature",
        "retries",
    ),
)
