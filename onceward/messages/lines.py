"""The line of a message: the queue in which it waits for its account. `onceward.message_line` chooses it when a message
is queued.

    message.whatsapp        the account of the installation; a lane per organization, so that they take turns
    message.whatsapp.own    accounts of organizations; a lane per organization, each limited by its own account only
    message.expired         messages whose time has passed, which a worker ends at once

The lane `ORGANIZATION:bulk` holds messages of templates with `bulk = true`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from uuid import UUID

from onceward.integration import integrations
from onceward.messages.accounts import channel_sources

EXPIRED = "message.expired"


def queue_of(channel: str) -> str:
    """Return the queue of the installation's account."""
    return f"message.{channel}"


def queues_of(channel: str) -> list[str]:
    """Return all queues in which a message of this channel may wait for its account."""
    return [queue_of(channel), f"{queue_of(channel)}.own"]


@dataclass(frozen=True, slots=True)
class Line:
    """The account that a message is sent through: that of an organization, or with None the installation's."""

    channel: str
    owner: UUID | None = None

    @property
    def queue(self) -> str:
        return queue_of(self.channel) if self.owner is None else f"{queue_of(self.channel)}.own"

    @property
    def lanes(self) -> list[str]:
        return [] if self.owner is None else [str(self.owner), f"{self.owner}:bulk"]


@cache
def own_secrets(channel: str) -> list[str]:
    """Return the secrets of which any one gives an organization its own account on a channel."""
    return [
        f"{service}.{field.name}"
        for service, source in channel_sources()
        if source.name == channel and source.own is not None
        for field in integrations()[service].account
        if not field.shared
    ]
