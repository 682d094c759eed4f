"""The most used Slack events.

Hand-kept after the published reference of the Events API, and compared with the samples only, not with a live
account. Only fields that most handlers use; `event.payload` has all of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from onceward.webhooks.models import Payload

VERSION: Final = "Events API"
"""Slack's Events API has no version."""


class Message(Payload):
    """`message` and `app_mention`."""

    type: str
    channel: str
    ts: str
    user: str | None = None
    text: str = ""
    thread_ts: str | None = None
    subtype: str | None = None
    channel_type: str | None = None


MODELS: Final[Mapping[str, type[Payload]]] = {"app_mention": Message, "message": Message}
