"""The most used callbacks of Twilio.

Hand-kept after the published guides to callbacks, and compared with the samples only, not with a live account. Only
fields that most handlers use; `event.payload` has all of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pydantic import Field

from onceward.webhooks.models import Payload

VERSION: Final = "2010-04-01"
"""The version of Twilio's API that the models describe."""


class ReceivedMessage(Payload):
    """`message.received`. All values of a form are texts."""

    message_sid: str = Field(alias="MessageSid")
    account_sid: str = Field(alias="AccountSid")
    sender: str = Field(alias="From")
    recipient: str = Field(alias="To")
    body: str = Field("", alias="Body")
    media_count: int = Field(0, alias="NumMedia")


class MessageStatus(Payload):
    """`message.sent`, `message.delivered`, `message.undelivered`, `message.failed`, `message.read`."""

    message_sid: str = Field(alias="MessageSid")
    account_sid: str = Field(alias="AccountSid")
    status: str = Field(alias="MessageStatus")
    sender: str | None = Field(None, alias="From")
    recipient: str | None = Field(None, alias="To")
    error_code: str | None = Field(None, alias="ErrorCode")


class Call(Payload):
    """`call.completed` and the other states of a call."""

    call_sid: str = Field(alias="CallSid")
    account_sid: str = Field(alias="AccountSid")
    status: str = Field(alias="CallStatus")
    sender: str = Field(alias="From")
    recipient: str = Field(alias="To")
    duration_s: int | None = Field(None, alias="CallDuration")
    direction: str | None = Field(None, alias="Direction")


MODELS: Final[Mapping[str, type[Payload]]] = {
    "call.completed": Call,
    "message.delivered": MessageStatus,
    "message.failed": MessageStatus,
    "message.read": MessageStatus,
    "message.received": ReceivedMessage,
    "message.sent": MessageStatus,
    "message.undelivered": MessageStatus,
}
