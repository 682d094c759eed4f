"""Grafana Alerting: `X-Grafana-Alerting-Signature`, hexadecimal HMAC-SHA256 of the body."""

from __future__ import annotations

from onceward.webhooks.events import Derive, Events
from onceward.webhooks.families import Hmac
from onceward.webhooks.sender import Sender

SENDER = Sender(
    title="Grafana Alerting",
    verification=Hmac(
        header="x-grafana-alerting-signature", signed="{timestamp}:{body}", timestamp="x-grafana-alerting-timestamp"
    ),
    events=Events(
        items="alerts", id=Derive("fingerprint", "status", "startsAt", "endsAt"), type="status", ordering="fingerprint"
    ),
    setup=(
        "Create a contact point of the kind webhook with the URL of the source. Under HMAC signature enter a "
        "secret, which is the secret of the source, and `X-Grafana-Alerting-Timestamp` as timestamp header."
    ),
    failure=(
        "Grafana retries while an alert fires, and repeats the notification: a repeated alert with equal times is "
        "a duplicate."
    ),
    notes="The name of the timestamp header is of your choice at Grafana; here it must be the one above.",
    samples_from=(
        "zulip/zulip zerver/webhooks/grafana/fixtures/alert_values_v11.json",
        "zulip/zulip zerver/webhooks/grafana/fixtures/alert_v8.json",
    ),
    facts=("grafana/alerting http/hmac.go (signature)",),
    unconfirmed=("retries",),
)
