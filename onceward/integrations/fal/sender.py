"""fal.ai: `X-Fal-Webhook-Signature`, Ed25519 with published keys."""

from __future__ import annotations

from onceward.webhooks.events import Events
from onceward.webhooks.families import PublishedKey
from onceward.webhooks.sender import Sender

SENDER = Sender(
    title="fal.ai",
    verification=PublishedKey(
        header="x-fal-webhook-signature",
        signed="{header:x-fal-webhook-request-id}\n{header:x-fal-webhook-user-id}\n{timestamp}\n{sha256}",
        timestamp="x-fal-webhook-timestamp",
        keys_url="https://rest.alpha.fal.ai/.well-known/jwks.json",
    ),
    events=Events(id="request_id", type="status", data="payload", strict=True),
    setup="Give the URL of the source as `fal_webhook` when you queue a request. No secret is needed.",
    failure="fal.ai waits 15 s and retries ten times in two hours.",
    facts=("several public projects (third party)",),
    unconfirmed=(
        "the signature",
        "the address of the keys (a newer text says rest.fal.ai)",
        "retries",
    ),
)
