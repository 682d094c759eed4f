"""OpnForm: `X-Webhook-Signature: sha256=..`, HMAC-SHA256 of the body."""

from __future__ import annotations

from onceward.webhooks.events import Events
from onceward.webhooks.families import Hmac
from onceward.webhooks.sender import Sender

SENDER = Sender(
    title="OpnForm",
    verification=Hmac(header="x-webhook-signature", prefix="sha256="),
    events=Events(id=(), type=(), default_type="submission", ordering="form_slug", data="data"),
    setup=(
        "In the form, under Integrations, Webhook, enter the URL of the source and a secret: it is the secret of "
        "the source."
    ),
    facts=("docs.opnform.com webhook-security (signature)",),
    unconfirmed=(
        "fields of the body",
        "retries",
    ),
)
