"""Checkout.com: `Cko-Signature`, hexadecimal HMAC-SHA256 of the body."""

from __future__ import annotations

from onceward.webhooks.events import Events
from onceward.webhooks.families import Hmac
from onceward.webhooks.sender import Sender

SENDER = Sender(
    title="Checkout.com",
    verification=Hmac(header="cko-signature"),
    events=Events(ordering="data.id", data="data", strict=True),
    setup=(
        "Create a workflow with a webhook action and the URL of the source. Its signature key is the secret of "
        "the source."
    ),
    failure="Checkout.com retries what is not acknowledged.",
    facts=("checkout.com/docs/workflows/set-up-your-webhook-receiver",),
    unconfirmed=("the fields `id` and `type`",),
)
