"""Okta event hooks: `Authorization`, a text of your choice."""

from __future__ import annotations

from onceward.webhooks.events import Events
from onceward.webhooks.families import Token
from onceward.webhooks.handshakes import EchoHeader
from onceward.webhooks.sender import Sender

SENDER = Sender(
    title="Okta event hooks",
    verification=Token(header="authorization"),
    events=Events(items="data.events", id="uuid", type="eventType", ordering="actor.id"),
    handshake=EchoHeader(name="x-okta-verification-challenge", method="GET", in_field="verification"),
    setup=(
        "Under Workflow, Event Hooks, create one with the URL of the source, `Authorization` as authentication "
        "field and a secret: it is the secret of the source."
    ),
    failure=(
        "Okta wants 200 or 204 within 3 s and retries once, not after a 4xx. Events come without order: "
        "`published` orders them."
    ),
    facts=("okta/okta-developer-docs concepts/event-hooks",),
)
