"""The channels that need no service. The others are in `onceward.integrations`.

All channels pass the same conformance suite.
"""

from typing import TYPE_CHECKING

from onceward.lazy import lazy

if TYPE_CHECKING:
    from onceward.messages.channels.dashboard import DashboardChannel
    from onceward.messages.channels.folder import FolderChannel

__all__ = ["DashboardChannel", "FolderChannel"]

__getattr__ = lazy(__name__, __file__)
