"""Patreon: `X-Patreon-Signature`, hexadecimal HMAC-MD5 of the body."""

from __future__ import annotations

from onceward.webhooks.events import Events, Header
from onceward.webhooks.families import Hmac
from onceward.webhooks.sender import Sender

SENDER = Sender(
    title="Patreon",
    verification=Hmac(header="x-patreon-signature", algorithm="md5"),
    events=Events(id=(), type=Header("X-Patreon-Event"), ordering="data.id", data="data", strict_type=True),
    setup=(
        "In the Platform portal, under My Webhooks, add the URL of the source. The secret is the secret of the source."
    ),
    failure=(
        "Patreon retries after 1 h, 3 h, 1 day, 3 days and three times a week, and may deliver accumulated events."
    ),
    samples_from=(
        "zulip/zulip zerver/webhooks/patreon/fixtures/members_pledge_create.json",
        "zulip/zulip zerver/webhooks/patreon/fixtures/members_delete.json",
    ),
    facts=("Patreon/platform-documentation _webhooks.md",),
)
