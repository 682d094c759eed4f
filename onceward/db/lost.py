"""Distinguish a lost database connection from every other error.

The type of an exception is not enough: a handler's own `OSError` has the type of a lost connection, and a handler whose
connection broke may raise any exception. So the code that holds the connection checks it and marks the exception. The
code that judges the exception later calls `lost_connection`.
"""

from __future__ import annotations

from typing import Protocol

import asyncpg

from onceward.db.errors import OutcomeUnknown

_MARK = "_onceward_lost_connection"


class Closable(Protocol):
    """A connection that can report whether it is closed."""

    def is_closed(self) -> bool: ...


def note_lost_connection(error: BaseException, conn: Closable) -> None:
    """Mark `error`, which was raised while `conn` was in use, if the connection is lost."""
    if is_gone(conn) or ended_the_session(error):
        setattr(error, _MARK, True)


def lost_connection(error: BaseException | None) -> bool:
    """Return whether the code that raised `error` had lost its database connection.

    Then neither the handler nor its statement is at fault. Uncommitted changes are lost; a commit that was running may
    have happened (`OutcomeUnknown`). The causes of `error` (`raise ... from`) are checked too.
    """
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        if isinstance(error, OutcomeUnknown) or getattr(error, _MARK, False):
            return True
        seen.add(id(error))
        error = error.__cause__
    return False


def is_gone(conn: Closable) -> bool:
    """Return whether the connection is closed, by us, the server or the network."""
    try:
        return conn.is_closed()
    except asyncpg.InterfaceError:
        return True  # the pool has already removed the connection


def ended_the_session(error: BaseException) -> bool:
    """Return whether the error is FATAL or PANIC: PostgreSQL then closes the session, even if we have not seen it
    yet."""
    return isinstance(error, asyncpg.PostgresError) and getattr(error, "severity_en", None) in ("FATAL", "PANIC")
