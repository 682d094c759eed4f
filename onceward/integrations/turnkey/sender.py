"""Turnkey: `X-Turnkey-Signature`, Ed25519 with published keys."""

from __future__ import annotations

from onceward.webhooks.events import Events, Header
from onceward.webhooks.families import PublishedKey
from onceward.webhooks.sender import Sender

SENDER = Sender(
    title="Turnkey",
    verification=PublishedKey(
        header="x-turnkey-signature",
        signed="v1.ed25519.{header:x-turnkey-signature-key-id}.{timestamp}.{id}.{body}",
        timestamp="x-turnkey-timestamp",
        timestamp_unit="ms",
        signed_id_header="x-turnkey-event-id",
        keys_url="https://api.turnkey.com/public/v1/discovery/webhooks/jwks",
        key_id_header="x-turnkey-signature-key-id",
    ),
    events=Events(
        id=Header("x-turnkey-event-id"),
        type=Header("x-turnkey-event-type"),
        default_type="ACTIVITY_UPDATES",
        ordering=("id", "organizationId"),
    ),
    sample_headers={"x-turnkey-signature-version": "v1", "x-turnkey-signature-algorithm": "ed25519"},
    setup="In the dashboard, under Webhooks, create a webhook with the URL of the source. No secret is needed.",
    failure="Turnkey retries failed deliveries by itself.",
    notes="The type of an event is in `X-Turnkey-Event-Type`, which is not signed.",
    facts=(
        "tkhq/sdk packages/crypto/src/webhooks.ts (signature, headers)",
        "docs.turnkey.com/features/webhooks/verify-signatures (signed text, keys)",
        "docs.turnkey.com/features/webhooks/overview (types, retries)",
        "tkhq/sdk examples/access-control/with-agent-wallet/src/lib/types.ts (fields of an activity)",
    ),
    unconfirmed=("fields of the types other than `ACTIVITY_UPDATES`", "the number of retries"),
)
