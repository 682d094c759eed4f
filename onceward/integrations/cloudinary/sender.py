"""Cloudinary: `X-Cld-Signature`, a plain hash of body, time and secret."""

from __future__ import annotations

from onceward.webhooks.events import Derive, Events
from onceward.webhooks.families import Hmac
from onceward.webhooks.sender import Sender

SENDER = Sender(
    title="Cloudinary",
    verification=Hmac(
        header="x-cld-signature",
        signed="{body}{timestamp}{secret}",
        algorithm="sha1",
        keyed=False,
        timestamp="x-cld-timestamp",
    ),
    tolerance_s=7200,
    events=Events(
        id=Derive("notification_type", "public_id", "version", "request_id", "timestamp"),
        type="notification_type",
        default_type="upload",
        ordering="public_id",
    ),
    setup=(
        "Under Settings, Webhook Notifications, add the URL of the source. The API secret is the secret of the "
        "source. For an account with SHA-256 use a `generic` source."
    ),
    failure="Cloudinary retries three times.",
    facts=("cloudinary/cloudinary_npm lib/utils/index.js (signature)",),
    unconfirmed=(
        "the field `notification_type`",
        "retries",
    ),
)
