"""The events of a mail at SendGrid.

Hand-kept after the published reference of the Event Webhook, and compared with the samples only, not with a live
account. Only fields that most handlers use; `event.payload` has all of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from onceward.webhooks.models import Payload

VERSION: Final = "Event Webhook"
"""SendGrid's Event Webhook has no version."""


class MailEvent(Payload):
    """One event of one mail: `processed`, `delivered`, `bounce`, `dropped`, `deferred`, `open`, `click`,
    `spamreport`."""

    event: str
    email: str
    timestamp: int
    sg_event_id: str
    sg_message_id: str | None = None
    reason: str | None = None
    status: str | None = None
    response: str | None = None
    url: str | None = None


MODELS: Final[Mapping[str, type[Payload]]] = dict.fromkeys(
    ("bounce", "click", "deferred", "delivered", "dropped", "open", "processed", "spamreport"), MailEvent
)
