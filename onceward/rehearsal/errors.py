"""The errors of a rehearsal. What a handler does wrong is a result and not an error."""

from __future__ import annotations

from onceward.db import DatabaseError
from onceward.errors import OncewardError


class RehearsalError(OncewardError):
    """The rehearsal cannot run. The text says what is missing and what to do."""


class UnknownWork(RehearsalError):
    """The id names neither an event nor a job, or one of another organization."""


class CommitRefused(DatabaseError):
    """The handler tried to end the transaction of its rehearsal. The statement was not sent."""
