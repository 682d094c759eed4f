"""The embedded PostgreSQL server, for use when no server is configured. There is nothing to install.

Its data are in `<data_dir>/pg`. The first command that needs the server starts it, and the last user that leaves stops
it. Each user holds a kernel lock that ends with its process, so no user record can become stale. The server runs in its
own session and survives a `kill -9` of the command that started it. It runs on Linux and macOS.
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
