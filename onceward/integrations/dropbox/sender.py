"""Dropbox: `X-Dropbox-Signature`, hexadecimal HMAC-SHA256 of the body with the app secret."""

from __future__ import annotations

from onceward.webhooks.events import Arrival, Events
from onceward.webhooks.families import Hmac
from onceward.webhooks.handshakes import EchoQuery
from onceward.webhooks.sender import Sender

SENDER = Sender(
    title="Dropbox",
    verification=Hmac(header="x-dropbox-signature"),
    events=Events(id=Arrival(), type=(), default_type="list_folder"),
    handshake=EchoQuery(name="challenge"),
    setup=(
        "In the app console, under Webhooks, add the URL of the source. The app secret is the secret of the source."
    ),
    failure="Dropbox wants an answer within 10 s and retries with increasing delays.",
    notes=("A notification only names accounts that have changes: read the changes through the API with your cursor."),
    samples_from=("zulip/zulip zerver/webhooks/dropbox/fixtures/file_updated.json",),
    facts=("dropbox/mdwebhook app.py (signature, handshake)",),
    unconfirmed=("deadline and retries",),
)
