"""GoCardless: `Webhook-Signature`, hexadecimal HMAC-SHA256 of the body."""

from __future__ import annotations

from onceward.webhooks.events import Events, Join
from onceward.webhooks.families import Hmac
from onceward.webhooks.sender import Sender

SENDER = Sender(
    title="GoCardless",
    verification=Hmac(header="webhook-signature"),
    events=Events(
        items="events",
        type=Join("resource_type", "action"),
        ordering=("links.payment", "links.mandate", "links.subscription", "links.refund"),
        strict_type=True,
    ),
    bad_signature_status=498,
    setup=(
        "Under Developers, Create, Webhook endpoint, enter the URL of the source. Its secret is the secret of the "
        "source."
    ),
    failure=(
        "GoCardless wants a 2xx within 10 s and retries up to eight times. It reads 498 as a wrong signature, so "
        "that is our answer."
    ),
    facts=("gocardless/gocardless-pro-python gocardless_pro/webhooks.py (signature, vector)",),
    unconfirmed=(
        "the answer 498",
        "retries",
    ),
)
