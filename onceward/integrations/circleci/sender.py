"""CircleCI: a comma-separated list of `v1=` HMAC-SHA256 signatures of the body."""

from __future__ import annotations

from onceward.webhooks.events import Events
from onceward.webhooks.families import Hmac
from onceward.webhooks.sender import Sender

SENDER = Sender(
    title="CircleCI",
    verification=Hmac(header="circleci-signature", separator=",", prefix="v1="),
    events=Events(id="id", type="type", ordering="pipeline.id", strict=True),
    setup=(
        "In the project's settings, under Webhooks, add a webhook with the URL of the source and a secret token: "
        "it is the secret of the source."
    ),
    failure="CircleCI wants a 2xx within 10 s and retries otherwise. Duplicates are possible.",
    samples_from=(
        "zulip/zulip zerver/webhooks/circleci/fixtures/github_job_completed.json",
        "zulip/zulip zerver/webhooks/circleci/fixtures/github_workflow_completed.json",
    ),
    facts=("circleci/circleci-docs outbound-webhooks.adoc (signature, vector)",),
)
