"""Greenhouse: `Signature: sha256 <hex>` (with a space), HMAC-SHA256 of the body."""

from __future__ import annotations

from onceward.webhooks.events import Events, Header
from onceward.webhooks.families import Hmac
from onceward.webhooks.sender import Sender

SENDER = Sender(
    title="Greenhouse",
    verification=Hmac(header="signature", prefix="sha256 "),
    events=Events(
        id=Header("Greenhouse-Event-ID"),
        type="action",
        ordering=("payload.application.id", "payload.candidate.id"),
        data="payload",
        strict=True,
    ),
    setup=(
        "Under Configure, Dev Center, Webhooks, create one with the URL of the source and a secret key: it is the "
        "secret of the source. A ping is sent when it is saved; if it fails, the webhook is disabled."
    ),
    failure="Greenhouse wants 200 and tries seven times in 15 hours.",
    samples_from=(
        "zulip/zulip zerver/webhooks/greenhouse/fixtures/candidate_created.json",
        "zulip/zulip zerver/webhooks/greenhouse/fixtures/candidate_hired.json",
    ),
    facts=("grnhse/greenhouse-api-docs webhooks/_introduction.md",),
    unconfirmed=("the field `action`",),
)
