"""Asana: `X-Hook-Signature`, hexadecimal HMAC-SHA256 of the body with the secret of the handshake."""

from __future__ import annotations

from onceward.webhooks.events import Derive, Events, Join
from onceward.webhooks.families import Hmac
from onceward.webhooks.handshakes import EchoHeader
from onceward.webhooks.sender import Sender

SENDER = Sender(
    title="Asana",
    verification=Hmac(header="x-hook-signature"),
    events=Events(
        items="events",
        id=Derive("resource.gid", "action", "created_at", "change.field", "parent.gid"),
        type=Join("resource.resource_type", "action"),
        ordering="resource.gid",
    ),
    handshake=EchoHeader(name="x-hook-secret"),
    setup=(
        "1. Add the source with any text as its secret. `POST /webhooks` at Asana with the URL of the source: the "
        "handshake is answered.\n"
        "2. Asana's answer contains `X-Hook-Secret`: `onceward sources rotate asana --overlap 0s` with this "
        "secret."
    ),
    failure=(
        "Asana wants 200 or 204, retries with increasing delays and deletes a webhook after 24 hours of failure. "
        "Every eight hours it sends an empty request, which is stored as the event `empty`."
    ),
    facts=("Asana/developer-docs _webhooks.html.md",),
    unconfirmed=("encoding of the signature (hexadecimal)",),
)
