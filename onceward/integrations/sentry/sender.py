"""Sentry: `Sentry-Hook-Signature`, hexadecimal HMAC-SHA256 of the body with the client secret."""

from __future__ import annotations

from onceward.webhooks.events import Events, Header, Join
from onceward.webhooks.families import Hmac
from onceward.webhooks.sender import Sender

SENDER = Sender(
    title="Sentry",
    verification=Hmac(header="sentry-hook-signature"),
    events=Events(
        id=Header("Request-ID"),
        type=Join(Header("Sentry-Hook-Resource"), "action"),
        ordering=("data.issue.id", "data.event.issue_id"),
        data="data",
        strict=True,
    ),
    retries=False,
    setup=(
        "Under Settings, Developer Settings, create an internal integration with the URL of the source as webhook "
        "URL and choose resources. Its client secret is the secret of the source."
    ),
    failure="Sentry waits one second for an answer. It does not say that it retries.",
    samples_from=("zulip/zulip zerver/webhooks/sentry/fixtures/issue_created_for_exception.json",),
    facts=("getsentry/sentry-docs docs/integrations/integration-platform/webhooks.mdx",),
)
