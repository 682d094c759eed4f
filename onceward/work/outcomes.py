"""The exceptions that a handler raises to choose the outcome of its attempt (see `attempt_outcome.py`).

pending ──claim──▶ processing ──▶ success
   ▲                   │  ├─────▶ failed       ended without an alert (a task that is not critical)
   │                   │  ├─────▶ dead_letter  ended with an alert; an operator can replay it
   └── retry, snoozed, ┘  ├─────▶ cancelled    stopped by an operator
       crashed            └─────▶ unknown      sent to a service without idempotency keys that never answered (messages)
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Generic, TypeVar

from onceward.durations import Duration, in_seconds
from onceward.errors import OncewardError
from onceward.work.attempt_outcome import CountedOutcome


class Retry(OncewardError):
    """Raise to retry after `after` (seconds or timedelta), or as the task's policy says. Counts as an attempt."""

    def __init__(self, reason: str = "", *, after: Duration | None = None) -> None:
        super().__init__(reason or "the handler asked for a retry")
        self.after_s = None if after is None else in_seconds(after)


class Snooze(OncewardError):
    """Raise to run again later without counting an attempt: nothing failed, it is too early."""

    def __init__(self, after: Duration, reason: str = "") -> None:
        super().__init__(reason or "it is too early to run")
        self.after_s = in_seconds(after)


class Permanent(OncewardError):
    """Raise when a retry cannot help: the work becomes a dead letter at once. Duplicates are answered with `result`."""

    def __init__(self, reason: str, *, result: Any = None, status: int | None = None) -> None:
        super().__init__(reason)
        self.result = result
        self.status = status


class Reply(dict[str, Any]):
    """Return this from a webhook's handler to commit its effects and answer the first delivery with another status.

    Use it for a refusal that has effects: the handler refunds a late payment, and the sender gets 400. Duplicates get
    200 with the same members, so that the sender stops retrying.
    """

    def __init__(self, status: int, /, **members: Any) -> None:
        super().__init__(members)
        if not 200 <= status < 500:
            raise ValueError(f"status is {status}: a reply that commits must be 200 to 499; raise Retry to answer 5xx")
        self.http_status = status


class PayloadInvalid(Permanent):
    """The payload or arguments do not fit the declared model or signature."""


class ArgumentsInvalid(PayloadInvalid):
    """The stored arguments of a job do not fit the signature of its function in this version of the code."""


class Indeterminate(OncewardError):
    """Raise when a service never answered a call without an idempotency key: the call must not be retried
    automatically."""


class Superseded(OncewardError):
    """The lease was lost: another worker holds this work now, and nothing of this attempt was committed."""


class Settled(OncewardError):
    """The task has settled the work in its own fenced commit. Metrics count `outcome`."""

    def __init__(self, outcome: CountedOutcome) -> None:
        super().__init__(outcome)
        self.outcome: CountedOutcome = outcome


class TimedOut(OncewardError):
    """The handler ran longer than its timeout."""


class Cancelled(OncewardError):
    """An operator cancelled the work while it ran."""


R_co = TypeVar("R_co", covariant=True)


@dataclass(frozen=True, slots=True)
class Finished(Generic[R_co]):
    """The outcome, result and error of a finished job or workflow, for a caller that waits for it.

    `result` has the type that the function returns if the outcome is `success`, and is usually None otherwise.
    """

    id: int
    outcome: str
    result: R_co | None
    error: dict[str, Any] | None
    finished_at: datetime
