"""HCP Terraform notifications: `X-TFE-Notification-Signature`, hexadecimal HMAC-SHA512 of the body."""

from __future__ import annotations

from onceward.webhooks.events import Derive, Events
from onceward.webhooks.families import Hmac
from onceward.webhooks.sender import Sender

SENDER = Sender(
    title="HCP Terraform notifications",
    verification=Hmac(header="x-tfe-notification-signature", algorithm="sha512"),
    events=Events(
        id=Derive("notification_configuration_id", "run_id", "notifications", "trigger"),
        type=("notifications.0.trigger", "trigger"),
        default_type="verification",
        ordering="run_id",
    ),
    setup=(
        "In the workspace's settings, under Notifications, create a webhook notification with the URL of the "
        "source and a token: it is the secret of the source."
    ),
    failure="The answer is stored and shown. A notification that fails when it is saved is not created.",
    facts=("hashicorp/web-unified-docs notification-configurations",),
    unconfirmed=("retries",),
)
