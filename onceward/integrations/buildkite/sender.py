"""Buildkite: `X-Buildkite-Signature: timestamp=..,signature=..`, HMAC-SHA256 of `timestamp.body`."""

from __future__ import annotations

from onceward.webhooks.events import Derive, Events, Header
from onceward.webhooks.families import Hmac
from onceward.webhooks.sender import Sender

SENDER = Sender(
    title="Buildkite",
    verification=Hmac(
        header="x-buildkite-signature",
        signed="{timestamp}.{body}",
        separator=",",
        prefix="signature=",
        timestamp_entry="timestamp=",
    ),
    events=Events(
        id=(Header("X-Buildkite-Request"), Derive("event", "build.id", "build.state", "job.id", "job.state")),
        type=(Header("X-Buildkite-Event"), "event"),
        ordering="build.id",
        strict_type=True,
    ),
    setup=(
        "Under Settings, Notification Services, add a webhook with the URL of the source, and choose the HMAC "
        "signature instead of the plain token. The token is the secret of the source."
    ),
    failure="Buildkite keeps the last 20 requests.",
    facts=("buildkite/docs pages/apis/webhooks",),
    unconfirmed=(
        "the header `X-Buildkite-Request`",
        "retries",
    ),
)
