"""What can go wrong.

CoursegenError             a request that is refused; `status` is its HTTP status
├── BadRequest             400
├── NotFound               404: no such course, or another user's
├── NotPossible            409: the course is in a state that does not allow this
├── AtLimit                429: the waiting line is full, or a monthly cap is reached
└── NotAccepted            500: the database failed three times
GenerationFailed           the generation cannot succeed; `code` says why, and the course shows it
AccountRefused             the language model refuses our account; the course waits without slots
Halted                     the course was cancelled or deleted while its job ran; the job ends without an error
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from onceward_apps.coursegen.model import ErrorCode


class CoursegenError(Exception):
    """A request that is refused. The message says why."""

    status: ClassVar[int] = 400
    key: ClassVar[str] = "error.bad_request"
    """The key of the text for the user."""


class BadRequest(CoursegenError):
    """The body does not fit."""


class NotFound(CoursegenError):
    """The course does not exist, or belongs to somebody else."""

    status = 404
    key = "error.not_found"


class NotPossible(CoursegenError):
    """The state of the course does not allow this."""

    status = 409
    key = "error.not_possible"


class AtLimit(CoursegenError):
    """No slot is free and the waiting line is full, or the month's money is spent."""

    status = 429

    def __init__(
        self, which: Literal["user", "global", "monthly_cap", "forecast"], *, retry_after_s: int, **facts: Any
    ) -> None:
        super().__init__(f"the {which.replace('_', ' ')} limit is reached; retry in {retry_after_s} s")
        self.which = which
        self.retry_after_s = retry_after_s
        self.facts = facts


class NotAccepted(CoursegenError):
    """The database failed on every try. Nothing was stored."""

    status = 500
    key = "error.not_accepted"


class GenerationFailed(Exception):
    """The generation cannot succeed, however often it is tried."""

    def __init__(self, code: ErrorCode, reason: str) -> None:
        super().__init__(reason)
        self.code: ErrorCode = code


class AccountRefused(Exception):
    """The language model refuses our account: no key, a wrong key, no credit. All courses have to wait."""


class Halted(Exception):
    """The course is no longer to be generated: it was cancelled, deleted, or another job has it."""
