"""Mollie: next-generation webhooks: `X-Mollie-Signature: sha256=..`, HMAC-SHA256 of the body."""

from __future__ import annotations

from onceward.webhooks.events import Events
from onceward.webhooks.families import Hmac
from onceward.webhooks.sender import Sender

SENDER = Sender(
    title="Mollie",
    verification=Hmac(header="x-mollie-signature", prefix="sha256=", separator=","),
    events=Events(ordering=("entityId", "_embedded.entity.id"), strict_type=True),
    setup=(
        "Create the webhook in the dashboard (Developers, Webhooks) with the URL of the source; its signing "
        "secret is the secret of the source. For payments with a classic `webhookUrl`, which are not signed, use "
        "`mollie_classic`."
    ),
    failure="Mollie retries ten times within 26 hours.",
    notes="While a secret is rotated, Mollie sends two signatures for 24 hours: one is enough.",
    facts=("mollie/mollie-api-php src/Webhooks/SignatureValidator.php (signature, rotation)",),
    unconfirmed=(
        "the fields `id` and `type`",
        "retries",
    ),
)
