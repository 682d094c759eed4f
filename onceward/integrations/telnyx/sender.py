"""Telnyx: `telnyx-signature-ed25519` over timestamp and body."""

from __future__ import annotations

from onceward.webhooks.events import Events
from onceward.webhooks.families import PublicKey
from onceward.webhooks.sender import Sender

SENDER = Sender(
    title="Telnyx",
    verification=PublicKey(
        header="telnyx-signature-ed25519", signed="{timestamp}|{body}", encoding="base64", timestamp="telnyx-timestamp"
    ),
    events=Events(
        id="data.id",
        type="data.event_type",
        ordering=("data.payload.call_session_id", "data.payload.id"),
        data="data.payload",
        strict=True,
    ),
    setup=(
        "Set the URL of the source in the messaging profile or the call control application. The public key of "
        "the account (Keys & Credentials) is the secret of the source."
    ),
    failure="Telnyx retries up to three times per address.",
    facts=("team-telnyx/telnyx-python src/telnyx/lib/webhook_verification.py (signature)",),
    unconfirmed=(
        "the field `data.id`",
        "retries",
    ),
)
