"""The most used events of the WhatsApp Cloud API, as a handler gets them: one message or one status.

Hand-kept after the published reference of webhooks, and compared with the samples only, not with a live account. Only
fields that most handlers use; `event.payload` has all of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pydantic import Field

from onceward.webhooks.models import Payload

VERSION: Final = "v23.0"
"""The version of the Graph API that the models were written for."""


class Text(Payload):
    """The text of a message."""

    body: str


class Button(Payload):
    """The button of a template that somebody pressed."""

    text: str
    payload: str | None = None


class Message(Payload):
    """A received message. `timestamp` is in seconds, as a text."""

    id: str
    sender: str = Field(alias="from")
    timestamp: str
    type: str
    text: Text | None = None
    button: Button | None = None


class Status(Payload):
    """What became of a message that we sent."""

    id: str
    status: str
    timestamp: str
    recipient_id: str | None = None


class MessageEvent(Payload):
    """`message.text`, `message.button`, `message.image`."""

    waba_id: str
    message: Message


class StatusEvent(Payload):
    """`status.sent`, `status.delivered`, `status.read`, `status.failed`."""

    waba_id: str
    status: Status


MODELS: Final[Mapping[str, type[Payload]]] = {
    "message.button": MessageEvent,
    "message.image": MessageEvent,
    "message.text": MessageEvent,
    "status.delivered": StatusEvent,
    "status.failed": StatusEvent,
    "status.read": StatusEvent,
    "status.sent": StatusEvent,
}
