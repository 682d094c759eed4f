"""Tell what interrupts a run from what the workflow's own code did wrong."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

import asyncpg

from onceward.db import Unavailable, lost_connection
from onceward.db.sqlstates import LOST_LEASE
from onceward.work import Overloaded, Superseded
from onceward.work.executor import TRANSIENT
from onceward.workflows.errors import HistoryChanged, Interrupted


@contextmanager
def interrupting() -> Generator[None]:
    """For what a run itself does with the database: a lost lease or connection is raised as `Interrupted`."""
    try:
        yield
    except Exception as error:
        reason = interruption(error)
        if reason is None:
            raise
        raise Interrupted(reason) from error


def interruption(error: Exception) -> Exception | None:
    """What the executor is told about an error of the run's own statements; None: the statement was at fault."""
    if isinstance(error, Superseded | HistoryChanged):
        return error
    if isinstance(error, asyncpg.PostgresError) and error.sqlstate == LOST_LEASE:
        return Superseded()
    if lost_connection(error):
        # Each of these statements commits by itself: whether it did is in the history that the next run loads.
        return HistoryChanged(0.05, f"the connection was lost while recording: {type(error).__name__}")
    if isinstance(error, Overloaded):
        return HistoryChanged(1.0, str(error))
    return error if is_transient(error) else None


def is_transient(error: Exception) -> bool:
    """Not the step's fault: the run is put back, uncounted, and the history decides what is left to do."""
    if isinstance(error, Unavailable):
        return True
    return isinstance(error, asyncpg.PostgresError) and error.sqlstate in TRANSIENT
