"""Sanity: `sanity-webhook-signature: t=..,v1=..`, base64url HMAC-SHA256 of `timestamp.body`."""

from __future__ import annotations

from onceward.webhooks.events import Events, Header
from onceward.webhooks.families import Hmac
from onceward.webhooks.sender import Sender

SENDER = Sender(
    title="Sanity",
    verification=Hmac(
        header="sanity-webhook-signature",
        signed="{timestamp}.{body}",
        separator=",",
        prefix="v1=",
        timestamp_entry="t=",
        timestamp_unit="ms",
        encoding="base64url",
    ),
    events=Events(id=(Header("idempotency-key"),), type="_type", default_type="document", ordering="_id"),
    setup=(
        "In the project, under API, Webhooks, create one with the URL of the source and a secret: it is the "
        "secret of the source. Its projection decides what the body contains; include `_id` and `_type`."
    ),
    failure="Sanity retries for 30 minutes.",
    facts=("sanity-io/webhook-toolkit src/signature.ts (signature, vector)",),
    unconfirmed=(
        "the header `idempotency-key`",
        "retries",
    ),
)
