"""The inbox verifies every incoming webhook, commits it, and then answers the sender. Each event is handled once.

Internal, except `onceward.inbox.sources`: import `Event` from `onceward`.
"""
# pyright: reportUnusedImport=false

from typing import TYPE_CHECKING

from onceward.lazy import lazy

if TYPE_CHECKING:  # names that are not in `__all__` are internal
    from onceward.inbox.event import Event, EventKind, StoredEvent
    from onceward.inbox.handlers import Declared, Handler, Ordering, follower, handler, only_followers, task_name
    from onceward.inbox.inbox import Inbox
    from onceward.inbox.upkeep import UpkeepOptions

__all__: list[str] = []

__getattr__ = lazy(__name__, __file__)
