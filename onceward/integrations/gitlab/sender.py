"""GitLab: `X-Gitlab-Token`, the secret itself."""

from __future__ import annotations

from onceward.webhooks.events import Events, Header
from onceward.webhooks.families import Token
from onceward.webhooks.sender import Sender

SENDER = Sender(
    title="GitLab",
    verification=Token(header="x-gitlab-token"),
    events=Events(
        id=(Header("Idempotency-Key"), Header("X-Gitlab-Event-UUID")),
        type=(Header("X-Gitlab-Event"), "object_kind"),
        ordering="project.path_with_namespace",
        strict=True,
    ),
    setup=(
        "Under Settings, Webhooks, add the URL of the source and a secret token: it is the secret of the source. "
        "If your GitLab has signing tokens, use `gitlab_signed` instead."
    ),
    failure="GitLab wants a fast answer, retries, and disables a webhook that fails often.",
    samples_from=(
        "zulip/zulip zerver/webhooks/gitlab/fixtures/push_hook.json",
        "zulip/zulip zerver/webhooks/gitlab/fixtures/merge_request_hook__merge_request_created_with_assignee.json",
    ),
    facts=("gitlabhq/gitlabhq doc webhooks.md",),
    unconfirmed=("when a webhook is disabled",),
)
