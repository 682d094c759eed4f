"""Bitbucket Cloud: `X-Hub-Signature: sha256=..`, HMAC-SHA256 of the body."""

from __future__ import annotations

from onceward.webhooks.events import Events, Header
from onceward.webhooks.families import Hmac
from onceward.webhooks.sender import Sender

SENDER = Sender(
    title="Bitbucket Cloud",
    verification=Hmac(header="x-hub-signature", prefix="sha256="),
    events=Events(
        id=Header("X-Request-UUID"), type=Header("X-Event-Key"), ordering="repository.full_name", strict=True
    ),
    published_addresses="https://ip-ranges.atlassian.com",
    setup=(
        "In the repository's settings, under Webhooks, add the URL of the source and a secret: it is the secret "
        "of the source."
    ),
    failure="Bitbucket retries a few times; `X-Attempt-Number` counts.",
    samples_from=(
        "zulip/zulip zerver/webhooks/bitbucket/fixtures/push.json",
        "zulip/zulip zerver/webhooks/bitbucket/fixtures/pull_request_created_or_updated.json",
    ),
    facts=("go-playground/webhooks#209 (third party)",),
    unconfirmed=(
        "algorithm and header of the signature",
        "the header `X-Request-UUID`",
        "retries",
    ),
)
