"""Plivo, signatures of version 2: base64 HMAC-SHA256 of the URL and a nonce, not of the body."""

from __future__ import annotations

from onceward.webhooks.events import Derive, Events
from onceward.webhooks.families import Hmac
from onceward.webhooks.sender import Sender

SENDER = Sender(
    title="Plivo (version 2)",
    verification=Hmac(
        header="x-plivo-signature-v2",
        signed="{url_without_query}{header:x-plivo-signature-v2-nonce}",
        body_is_signed=False,
        encoding="base64",
    ),
    events=Events(
        body="any",
        id=Derive("MessageUUID", "Status", "CallUUID", "CallStatus", "Event", "Sequence"),
        type=("Status", "CallStatus", "Event"),
        default_type="received",
        ordering=("MessageUUID", "CallUUID"),
    ),
    form="fields",
    setup=(
        "Use `plivo` instead, if the application sends version 3. Give the URL of the source at Plivo with the method "
        "POST; the auth token of the account is the secret of the source. Plivo signs the URL: give `--public-url`."
    ),
    facts=(
        "plivo/plivo-python plivo/utils/__init__.py (signature)",
        "plivo.com/docs/messaging/api/message/message-status-callbacks (fields)",
    ),
    unconfirmed=("the fields of calls", "retries"),
)
