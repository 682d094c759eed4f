"""LaunchDarkly: `X-LD-Signature`, hexadecimal HMAC-SHA256 of the body."""

from __future__ import annotations

from onceward.webhooks.events import Events
from onceward.webhooks.families import Hmac
from onceward.webhooks.sender import Sender

SENDER = Sender(
    title="LaunchDarkly",
    verification=Hmac(header="x-ld-signature"),
    events=Events(id="_id", type=("kind", "titleVerb"), default_type="audit", strict_type=False),
    setup=(
        "Under Integrations, Webhooks, add a webhook with the URL of the source and sign it: its secret is the "
        "secret of the source."
    ),
    failure="LaunchDarkly delivers without order (the body's `date` orders events) and retries once.",
    facts=("launchdarkly.com/docs/home/infrastructure/webhooks",),
    unconfirmed=(
        "digest and encoding of the signature",
        "the field `kind`",
        "retries",
    ),
)
