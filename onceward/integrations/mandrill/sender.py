"""Mailchimp Transactional (Mandrill): `X-Mandrill-Signature`, base64 HMAC-SHA1 of the URL and the fields of the
form."""

from __future__ import annotations

from onceward.webhooks.events import Derive, Events
from onceward.webhooks.families import Hmac
from onceward.webhooks.handshakes import Reachable
from onceward.webhooks.sender import Sender

SENDER = Sender(
    title="Mailchimp Transactional (Mandrill)",
    verification=Hmac(header="x-mandrill-signature", signed="{url}{form}", algorithm="sha1", encoding="base64"),
    events=Events(
        items=".",
        body="json",
        form_field="mandrill_events",
        id=Derive("_id", "event", "ts", "url"),
        type="event",
        ordering="_id",
    ),
    handshake=Reachable(),
    form="json",
    setup=(
        "Under Settings, Webhooks, add the URL of the source. Its key is the secret of the source. Mandrill signs "
        "the URL: give `--public-url`. The test of the page is signed with the key `test-webhook`, so it is "
        "refused."
    ),
    failure="Mandrill retries with increasing delays.",
    facts=("several public projects (third party)",),
    unconfirmed=(
        "the signature",
        "retries",
    ),
)
