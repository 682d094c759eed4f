"""What a client is interested in: the results of groups, and the messages of topics."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onceward.live.errors import LiveError
from onceward.live.group import Group
from onceward.live.topics import TopicChannel

if TYPE_CHECKING:
    from onceward.live.connection import Connection


class LiveSubscription:
    """A client's subscription to a group. `sent` is the hash of the result that the client has."""

    __slots__ = ("answered", "connection", "failed", "group", "id", "sent")

    def __init__(self, connection: Connection, id: int, group: Group, sent: str | None) -> None:
        self.connection = connection
        self.id = id
        self.group = group
        self.sent = sent
        self.answered = False
        self.failed: LiveError | None = None

    @property
    def has_new_result(self) -> bool:
        """Whether the group has a result that the client does not have."""
        group = self.group
        return group.error is None and group.text is not None and self.sent != group.hash

    def mark_sent(self) -> None:
        """The client has the group's result."""
        self.sent = self.group.hash
        self.answered = True
        self.failed = None


class Follow:
    """A client's subscription to a topic. `position` is the position of the last message sent."""

    __slots__ = ("channel", "connection", "first", "gap", "id", "position")

    def __init__(self, connection: Connection, id: int, channel: TopicChannel) -> None:
        self.connection = connection
        self.id = id
        self.channel = channel
        self.position: int | None = None
        """None until the earlier messages have been loaded."""
        self.first: list[str] | None = None
        self.gap = False
