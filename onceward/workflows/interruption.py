"""Distinguish interruptions of a run (lost lease, lost connection) from errors of the workflow's own code."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

import asyncpg

from onceward.db import Unavailable, lost_connection
from onceward.work import Overloaded, Superseded
from onceward.work.failure_outcome import TRANSIENT
from onceward.work.sqlstates import LOST_LEASE
from onceward.workflows.errors import HistoryChanged, Interrupted
from onceward.workflows.sqlstates import HISTORY_LACKS_STEP


@contextmanager
def interrupting() -> Generator[None]:
    """Raise `Interrupted` when a statement of the run itself loses the lease or the connection."""
    try:
        yield
    except Exception as error:
        reason = interruption(error)
        if reason is None:
            raise
        raise Interrupted(reason) from error


def interruption(error: Exception) -> Exception | None:
    """Return the error to report to the executor, or None if the statement itself was wrong."""
    if isinstance(error, Superseded | HistoryChanged):
        return error
    if isinstance(error, asyncpg.PostgresError) and error.sqlstate == LOST_LEASE:
        return Superseded()
    if isinstance(error, asyncpg.PostgresError) and error.sqlstate == HISTORY_LACKS_STEP:
        return HistoryChanged(0.0, str(error))
    if lost_connection(error):
        # Each of these statements is its own commit: the next run sees in the history whether it happened.
        return HistoryChanged(0.05, f"the connection was lost while recording: {type(error).__name__}")
    if isinstance(error, Overloaded):
        return HistoryChanged(1.0, str(error))
    return error if is_transient(error) else None


def is_transient(error: Exception) -> bool:
    """Whether the database caused the error. The run is then repeated from its history, and no attempt is counted."""
    if isinstance(error, Unavailable):
        return True
    return isinstance(error, asyncpg.PostgresError) and error.sqlstate in TRANSIENT
