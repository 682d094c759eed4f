"""A PostgreSQL of our own when none is configured: real from the first minute, nothing to install.

Its data lies in `<data_dir>/pg`. The first command that needs it starts it, the last one that leaves stops
it; who is still using it is known by locks that the kernel drops with their process, so nothing here can go
stale. The server runs in a session of its own and outlives a `kill -9` of the command that started it.
Linux and macOS.
"""

from onceward.db.embedded.errors import (
    EmbeddedError,
    InUseElsewhere,
    NoDiskSpace,
    NoPermission,
    NotStarted,
    OtherVersion,
    StillBusy,
)
from onceward.db.embedded.server import BIN, EmbeddedPostgres

__all__ = [
    "BIN",
    "EmbeddedError",
    "EmbeddedPostgres",
    "InUseElsewhere",
    "NoDiskSpace",
    "NoPermission",
    "NotStarted",
    "OtherVersion",
    "StillBusy",
]
