"""PagerDuty: a comma-separated list of `v1=` HMAC-SHA256 signatures of the body."""

from __future__ import annotations

from onceward.webhooks.events import Events
from onceward.webhooks.families import Hmac
from onceward.webhooks.sender import Sender

SENDER = Sender(
    title="PagerDuty",
    verification=Hmac(header="x-pagerduty-signature", separator=",", prefix="v1="),
    events=Events(id="event.id", type="event.event_type", ordering="event.data.id", data="event.data", strict=True),
    setup=(
        "Under Integrations, Generic Webhooks (v3), add a subscription with the URL of the source. PagerDuty "
        "shows its secret once: it is the secret of the source."
    ),
    failure=(
        "PagerDuty retries for some time. An answer of 400 or 403 stops the redelivery, so a wrong secret costs "
        "events: rejected requests get 401."
    ),
    samples_from=(
        "zulip/zulip zerver/webhooks/pagerduty/fixtures/triggered_v3.json",
        "zulip/zulip zerver/webhooks/pagerduty/fixtures/resolved_v3.json",
    ),
    facts=("PagerDuty/go-pagerduty webhookv3 (signature, vector)",),
    unconfirmed=("how often it retries",),
)
