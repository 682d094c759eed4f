"""Travis CI: `Signature`, RSA over the field `payload` of a form, with a published key."""

from __future__ import annotations

from onceward.webhooks.events import Derive, Events
from onceward.webhooks.families import PublishedKey
from onceward.webhooks.sender import Sender

SENDER = Sender(
    title="Travis CI",
    verification=PublishedKey(
        algorithm="rsa-sha1",
        header="signature",
        signed="{form:payload}",
        encoding="base64",
        keys_url="https://api.travis-ci.com/config",
        key_path="config.notifications.webhook.public_key",
    ),
    events=Events(
        form_field="payload",
        id=Derive("id", "state", "status_message", "started_at", "finished_at"),
        type="state",
        ordering="id",
        strict_type=True,
    ),
    form="json",
    retries=False,
    setup="In `.travis.yml`, enter the URL of the source under `notifications`, `webhooks`. No secret is needed.",
    failure="Travis CI logs the answer and does not try again.",
    notes="A build that is restarted has the same id: an event is one state of one run.",
    samples_from=("zulip/zulip zerver/webhooks/travis/fixtures/pull_request.json (without `state`)",),
    facts=(
        "travis-ci/docs-travis-ci-com user/notifications.md.erb (signature, key, fields)",
        "travis-ci/travis-tasks lib/travis/addons/webhook/task.rb (form, signature, no retries)",
    ),
)
