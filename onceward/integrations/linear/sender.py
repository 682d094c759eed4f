"""Linear: `Linear-Signature`, hexadecimal HMAC-SHA256 of the body."""

from __future__ import annotations

from onceward.webhooks.events import Derive, Events, Header, Join
from onceward.webhooks.families import Hmac
from onceward.webhooks.sender import Sender

SENDER = Sender(
    title="Linear",
    verification=Hmac(header="linear-signature"),
    events=Events(
        id=(Header("Linear-Delivery"), Derive("type", "action", "data.id", "webhookTimestamp")),
        type=Join("type", "action"),
        ordering="data.id",
        data="data",
        strict_type=True,
    ),
    setup=(
        "Under Settings, API, Webhooks, add a webhook with the URL of the source. Its signing secret is the "
        "secret of the source."
    ),
    failure="Linear wants 200 within 5 s and retries three times (after a minute, an hour and six hours).",
    samples_from=(
        "zulip/zulip zerver/webhooks/linear/fixtures/comment_create.json",
        "zulip/zulip zerver/webhooks/linear/fixtures/issue_create_simple.json",
    ),
    facts=("linear/linear packages/sdk/src/webhooks/client.ts (signature)",),
    unconfirmed=(
        "the header `Linear-Delivery`",
        "deadline and retries",
    ),
)
