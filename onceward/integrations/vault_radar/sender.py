"""HCP Vault Radar: `X-HCP-Radar-Signature: sha512=..`, HMAC-SHA512 of the body."""

from __future__ import annotations

from onceward.webhooks.events import Events, Header
from onceward.webhooks.families import Hmac
from onceward.webhooks.sender import Sender

SENDER = Sender(
    title="HCP Vault Radar",
    verification=Hmac(header="x-hcp-radar-signature", algorithm="sha512", prefix="sha512="),
    events=Events(id=("event_id", Header("X-HCP-Radar-Message-ID")), type="event_type", strict_type=True),
    setup=(
        "In the console of HCP Vault Radar, add a webhook with the URL of the source. The signing secret shown "
        "there is the secret of the source."
    ),
    facts=("developer.hashicorp.com/hcp/docs/vault-radar",),
    unconfirmed=(
        "types of events",
        "retries",
    ),
)
