"""Tell a lost database connection from every other error.

The type of an exception does not say it: a handler's own `OSError` has the type of a lost connection, and a handler that
was cut off may raise whatever it likes. So the place that holds the connection looks at it, and notes on the exception
what it saw; whoever judges the exception later asks `lost_connection`.
"""

from __future__ import annotations

from typing import Protocol

import asyncpg

from onceward.db.errors import OutcomeUnknown

_NOTE = "_onceward_lost_connection"


class Closable(Protocol):
    """A connection, seen from here."""

    def is_closed(self) -> bool: ...


def note_lost_connection(error: BaseException, conn: Closable) -> None:
    """Note on `error`, which was raised while `conn` was in use, that the connection is gone. Do nothing if it is not."""
    if is_gone(conn) or ended_the_session(error):
        setattr(error, _NOTE, True)


def lost_connection(error: BaseException | None) -> bool:
    """Return whether one of our database connections was lost under the code that raised `error`.

    Then neither the handler nor its statement has failed. Nothing that was not committed happened; a commit that was
    under way may have happened (`OutcomeUnknown`). The causes of `error` (`raise ... from`) are looked at as well.
    """
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        if isinstance(error, OutcomeUnknown) or getattr(error, _NOTE, False):
            return True
        seen.add(id(error))
        error = error.__cause__
    return False


def is_gone(conn: Closable) -> bool:
    """Return whether the connection is closed, by us, by the server or by the network."""
    try:
        return conn.is_closed()
    except asyncpg.InterfaceError:
        return True  # the pool noticed first and has taken the connection away


def ended_the_session(error: BaseException) -> bool:
    """PostgreSQL said FATAL or PANIC: it closes the session, and the end of the stream may not have been read yet."""
    return isinstance(error, asyncpg.PostgresError) and getattr(error, "severity_en", None) in ("FATAL", "PANIC")
