"""The most used events of the WhatsApp Cloud API, as a handler gets them: one message or one status.

Hand-kept after the published reference of webhooks, and compared with the samples only, not with a live account. Only
fields that most handlers use; `event.payload` has all of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from onceward.integrations.whatsapp.received import WhatsAppReceived
from onceward.webhooks.models import Payload

VERSION: Final = "v23.0"
"""The version of the Graph API that the models were written for."""


class Status(Payload):
    """What became of a message that we sent."""

    id: str
    status: str
    timestamp: str
    recipient_id: str | None = None


class StatusEvent(Payload):
    """`status.sent`, `status.delivered`, `status.read`, `status.failed`."""

    waba_id: str
    status: Status


MODELS: Final[Mapping[str, type[Payload]]] = {
    "message.button": WhatsAppReceived,
    "message.image": WhatsAppReceived,
    "message.text": WhatsAppReceived,
    "status.delivered": StatusEvent,
    "status.failed": StatusEvent,
    "status.read": StatusEvent,
    "status.sent": StatusEvent,
}
