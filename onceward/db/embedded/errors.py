"""The errors of the embedded server. Each message names the place, the reason and what to do."""

from __future__ import annotations

from onceward.db.errors import DatabaseError


class EmbeddedError(DatabaseError):
    """The embedded PostgreSQL cannot be used."""


class NoDiskSpace(EmbeddedError):
    """The disk of the data directory has too little free space."""


class NoPermission(EmbeddedError):
    """This user, or the account that runs the server, may not access the files."""


class OtherVersion(EmbeddedError):
    """Another major version of PostgreSQL wrote the data."""


class StillBusy(EmbeddedError):
    """Another command is starting, stopping or using the server and does not finish in time."""


class InUseElsewhere(EmbeddedError):
    """A server in another container, or on another machine, uses the data."""


class NotStarted(EmbeddedError):
    """PostgreSQL did not start or stop. The message contains its last log lines."""
