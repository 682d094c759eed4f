"""Meta (Messenger, Instagram, Pages): `X-Hub-Signature-256: sha256=..`, HMAC-SHA256 of the body with the app secret."""

from __future__ import annotations

from onceward.webhooks.events import Derive, Events
from onceward.webhooks.families import Hmac
from onceward.webhooks.handshakes import SubscriptionCheck, VerifyTokenOptions
from onceward.webhooks.sender import Sender

SENDER = Sender(
    title="Meta (Messenger, Instagram, Pages)",
    verification=Hmac(header="x-hub-signature-256", prefix="sha256="),
    events=Events(
        items="entry",
        id=Derive("id", "time", "messaging", "changes"),
        type=("changes.0.field", lambda request, entry: "messaging" if "messaging" in entry else ""),
        default_type="entry",
        ordering="id",
    ),
    handshake=SubscriptionCheck(),
    options_model=VerifyTokenOptions,
    setup=(
        "In the app's dashboard, under Webhooks, subscribe with the URL of the source and a verify token of your "
        "choice (the option `verify_token`). The app secret is the secret of the source. For WhatsApp use "
        "`whatsapp`."
    ),
    failure="Meta retries for up to 36 hours, without order.",
    facts=("n8n-io/n8n FacebookLeadAds (third party)",),
    unconfirmed=(
        "the signature (it is the same as for WhatsApp, which is documented)",
        "retries",
    ),
)
