"""DocuSign Connect: `X-DocuSign-Signature-1` and so on, each base64 HMAC-SHA256 of the body with one key."""

from __future__ import annotations

from onceward.webhooks.events import Derive, Events
from onceward.webhooks.families import Hmac
from onceward.webhooks.sender import Sender

SENDER = Sender(
    title="DocuSign Connect",
    verification=Hmac(header=tuple(f"x-docusign-signature-{n}" for n in range(1, 11)), encoding="base64"),
    events=Events(
        id=Derive("event", "data.envelopeId", "data.recipientId", "generatedDateTime"),
        type="event",
        ordering="data.envelopeId",
        data="data",
        strict_type=True,
    ),
    setup=(
        "In Connect, create a configuration (JSON, REST v2.1) with the URL of the source and add an HMAC key: it "
        "is the secret of the source."
    ),
    failure="DocuSign retries for up to 15 days; `retryCount` counts.",
    notes="Each key has a header of its own. The first ten are read.",
    facts=("developers.docusign.com connect/validate (signature, rotation)",),
    unconfirmed=(
        "retries",
        "the fields of the body",
    ),
)
