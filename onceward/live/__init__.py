"""Live queries, whose results stay up to date in every browser; topics, presence, and the endpoint that serves them."""
# pyright: reportUnusedImport=false

from typing import TYPE_CHECKING

from onceward.lazy import lazy

if TYPE_CHECKING:  # names that are not in `__all__` are internal
    from onceward.live.access import Caller, Rule, Viewer
    from onceward.live.credentials import Authenticate, Credentials, authenticator
    from onceward.live.errors import (
        BadArguments,
        LiveError,
        NotVisible,
        NotWatched,
        QueryFault,
        SubscriptionRefused,
        TooMuch,
        UnknownQuery,
        UnknownTopic,
    )
    from onceward.live.node import WAKE, LiveNode
    from onceward.live.options import LiveOptions
    from onceward.live.presence import set_presence
    from onceward.live.query import Per, Query, QueryDefinition
    from onceward.live.registry import LiveRegistry
    from onceward.live.topics import Topic, broadcast

__all__ = [
    "Caller",
    "Query",
    "set_presence",
]

__getattr__ = lazy(__name__, __file__)
