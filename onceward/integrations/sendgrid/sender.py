"""Twilio SendGrid events: `X-Twilio-Email-Event-Webhook-Signature`, ECDSA over timestamp and body."""

from __future__ import annotations

from onceward.webhooks.events import Events
from onceward.webhooks.families import PublicKey
from onceward.webhooks.sender import Sender

SENDER = Sender(
    title="Twilio SendGrid events",
    verification=PublicKey(
        algorithm="ecdsa-sha256",
        header="x-twilio-email-event-webhook-signature",
        signed="{timestamp}{body}",
        encoding="base64",
        timestamp="x-twilio-email-event-webhook-timestamp",
    ),
    events=Events(items=".", body="json", id="sg_event_id", type="event", ordering="sg_message_id"),
    setup=(
        "Under Settings, Mail Settings, Event Webhooks, add the URL of the source and turn the signature on. The "
        "verification key is the secret of the source."
    ),
    failure="SendGrid retries for 24 hours.",
    facts=("sendgrid/sendgrid-python helpers/eventwebhook (signature)",),
    unconfirmed=("retries",),
)
