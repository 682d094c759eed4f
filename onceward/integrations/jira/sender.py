"""Jira Cloud: `X-Hub-Signature: sha256=..`, HMAC-SHA256 of the body."""

from __future__ import annotations

from onceward.webhooks.events import Events, Header
from onceward.webhooks.families import Hmac
from onceward.webhooks.sender import Sender

SENDER = Sender(
    title="Jira Cloud",
    verification=Hmac(header="x-hub-signature", prefix="sha256="),
    events=Events(id=Header("X-Atlassian-Webhook-Identifier"), type="webhookEvent", ordering="issue.id", strict=True),
    bodies_repeat=False,
    published_addresses="https://ip-ranges.atlassian.com",
    setup=(
        "Under System, WebHooks (for administrators), create a webhook with the URL of the source and a secret: "
        "it is the secret of the source."
    ),
    failure="Jira retries; `X-Atlassian-Webhook-Retry` counts, and the identifier stays the same.",
    samples_from=(
        "zulip/zulip zerver/webhooks/jira/fixtures/comment_created.json",
        "zulip/zulip zerver/webhooks/jira/fixtures/issue_created.json",
    ),
    facts=("NangoHQ/nango jira (third party)",),
    unconfirmed=(
        "the signature",
        "deadline and retries",
    ),
)
