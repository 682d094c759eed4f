"""Why the embedded server cannot run. Each message says where, why, and what to do."""

from __future__ import annotations

from onceward.db.errors import DatabaseError


class EmbeddedError(DatabaseError):
    """The embedded PostgreSQL cannot be used."""


class NoDiskSpace(EmbeddedError):
    """Too little room for the data directory."""


class NoPermission(EmbeddedError):
    """The files, or the way to them, are closed to this user or to the account that runs the server."""


class OtherVersion(EmbeddedError):
    """The data was written by another major version of PostgreSQL."""


class StillBusy(EmbeddedError):
    """Another command is starting or stopping the server and does not come to an end."""


class InUseElsewhere(EmbeddedError):
    """A server in another container, or on another machine, has the data open."""


class NotStarted(EmbeddedError):
    """PostgreSQL itself refused; its own last words are in the message."""
