"""The inbox verifies every incoming webhook, commits it, and then answers the sender. Each event is handled once."""

from typing import TYPE_CHECKING

from onceward.lazy import lazy

if TYPE_CHECKING:
    from onceward.inbox.event import Event, EventKind, StoredEvent
    from onceward.inbox.handlers import Declared, Handler, Ordering, follower, handler, only_followers, task_name
    from onceward.inbox.inbox import Inbox
    from onceward.inbox.upkeep import UpkeepOptions

__all__ = [
    "Declared",
    "Event",
    "EventKind",
    "Handler",
    "Inbox",
    "Ordering",
    "StoredEvent",
    "UpkeepOptions",
    "follower",
    "handler",
    "only_followers",
    "task_name",
]

__getattr__ = lazy(__name__, __file__)
