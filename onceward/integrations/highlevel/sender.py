"""HighLevel: `x-wh-signature`, RSA over the body."""

from __future__ import annotations

from onceward.webhooks.events import Events
from onceward.webhooks.families import PublicKey
from onceward.webhooks.sender import Sender

SENDER = Sender(
    title="HighLevel",
    verification=PublicKey(algorithm="rsa-sha256", header="x-wh-signature", encoding="base64"),
    events=Events(id="webhookId", type="type", ordering=("contactId", "id"), strict=True),
    setup=(
        "In the Marketplace app, under Advanced Settings, Webhooks, enter the URL of the source. The public key "
        "in HighLevel's documentation (PEM) is the secret of the source."
    ),
    facts=("NangoHQ/nango highlevel (third party)",),
    unconfirmed=(
        "the signature",
        "the fields `webhookId` and `type`",
        "retries",
    ),
)
