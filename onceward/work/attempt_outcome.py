"""The outcome of an attempt: one class for each way in which an attempt can end, with the words of the database.

`onceward.outcome`, the domain of `onceward.attempts.outcome`, lists the same words. Logs, metrics and alerts use them
too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, assert_never

OutcomeName = Literal[
    "success", "retry", "snoozed", "crashed", "failed", "dead_letter", "cancelled", "unknown", "discarded"
]
"""How an attempt ended. `discarded` is written only by an operator who ends a dead letter."""
CountedOutcome = OutcomeName | Literal["superseded", "parked"]
"""What `onceward_work_finished_total` counts.

Two values are not stored: `superseded` (the lease was lost, so nothing was written) and `parked` (a workflow waits).
"""

FAILURES: frozenset[str] = frozenset({"retry", "crashed", "failed", "dead_letter"})
"""Outcomes that mark the span of an attempt as failed."""

DeadReason = Literal[
    "max_attempts_exceeded",
    "payload_invalid",
    "permanent",
    "no_handler",
    "timeout",
    "worker_lost",
    "connection_lost",
    "not_recorded",
    "cancelled",
]


@dataclass(frozen=True, slots=True)
class SuccessOutcome:
    result: Any = None


@dataclass(frozen=True, slots=True)
class RetryOutcome:
    """The attempt failed and counts. The work is pending again and due in `due_in_s`."""

    due_in_s: float
    error: dict[str, Any]


@dataclass(frozen=True, slots=True)
class SnoozedOutcome:
    """The attempt does not count. The work is pending again and due in `due_in_s`."""

    due_in_s: float
    error: dict[str, Any]


@dataclass(frozen=True, slots=True)
class CrashedOutcome:
    """The handler lost its database connection. The work is pending again; the third crash makes it a dead letter.

    Crashes are counted because a handler that ends its own session every time would run for ever. A crash is not
    counted if PostgreSQL was restarted or another server became the primary meanwhile.
    """

    due_in_s: float
    error: dict[str, Any]


@dataclass(frozen=True, slots=True)
class DeadLetterOutcome:
    """A dead letter, or `failed` for a task that is not critical."""

    reason: DeadReason
    error: dict[str, Any]
    result: Any = None


@dataclass(frozen=True, slots=True)
class CancelledOutcome:
    """An operator cancelled the work while it ran."""

    error: dict[str, Any]


@dataclass(frozen=True, slots=True)
class UnknownOutcome:
    """A service without idempotency keys never answered."""

    error: dict[str, Any]


AttemptOutcome = (
    SuccessOutcome
    | RetryOutcome
    | SnoozedOutcome
    | CrashedOutcome
    | DeadLetterOutcome
    | CancelledOutcome
    | UnknownOutcome
)


def name_of(outcome: AttemptOutcome, *, critical: bool = True) -> OutcomeName:
    """Return the word of the database for an outcome. Tasks that are not `critical` fail without a dead letter."""
    match outcome:
        case SuccessOutcome():
            return "success"
        case RetryOutcome():
            return "retry"
        case SnoozedOutcome():
            return "snoozed"
        case CrashedOutcome():
            return "crashed"
        case DeadLetterOutcome():
            return "dead_letter" if critical else "failed"
        case CancelledOutcome():
            return "cancelled"
        case UnknownOutcome():
            return "unknown"
        case _:
            assert_never(outcome)
