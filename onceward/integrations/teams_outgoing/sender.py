"""Microsoft Teams outgoing webhooks: `Authorization: HMAC <base64>`, HMAC-SHA256 of the body, the key in base64."""

from __future__ import annotations

from onceward.webhooks.events import Events
from onceward.webhooks.families import Hmac
from onceward.webhooks.sender import Sender

SENDER = Sender(
    title="Microsoft Teams outgoing webhooks",
    verification=Hmac(header="authorization", prefix="HMAC ", encoding="base64", key_encoding="base64"),
    events=Events(ordering="conversation.id", strict=True),
    setup=(
        "In the team, under Manage team, Apps, create an outgoing webhook with the URL of the source. The "
        "security token is the secret of the source."
    ),
    failure="Teams waits 5 s for the answer and shows it in the channel.",
    notes=(
        'The answer is a message: use the mode `inline` and return `{"type": "message", "text": ...}` from the handler.'
    ),
    facts=("MicrosoftDocs/msteams-docs add-outgoing-webhook.md",),
)
