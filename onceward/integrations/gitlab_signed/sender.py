"""GitLab (signing token): Standard Webhooks."""

from __future__ import annotations

from onceward.webhooks.events import Events, Header
from onceward.webhooks.families import StandardWebhooks
from onceward.webhooks.sender import Sender

SENDER = Sender(
    title="GitLab (signing token)",
    verification=StandardWebhooks(header_prefixes=("webhook",)),
    events=Events(
        id=Header("webhook-id"),
        type=(Header("X-Gitlab-Event"), "object_kind"),
        ordering="project.path_with_namespace",
        strict=True,
    ),
    setup=(
        "Under Settings, Webhooks, add the URL of the source and a signing token (`whsec_...`): it is the secret "
        "of the source. The feature is new (flag `webhook_signing_token`)."
    ),
    failure="GitLab wants a fast answer and retries.",
    samples_from=(
        "zulip/zulip zerver/webhooks/gitlab/fixtures/push_hook.json",
        "zulip/zulip zerver/webhooks/gitlab/fixtures/pipeline_hook__pipeline_succeeded.json",
    ),
    facts=("gitlab.com merge requests 230944, 231325, 160952",),
)
