"""What an error of a handler means for its work, and the line that the log gets."""

from __future__ import annotations

from logging import DEBUG, INFO
from typing import Any, TypeGuard

import asyncpg
import structlog

from onceward.db import Transaction, TransactionEnded, Unavailable, lost_connection
from onceward.db.transaction import ended_and_failed
from onceward.work.attempt_outcome import (
    AttemptOutcome,
    CancelledOutcome,
    CrashedOutcome,
    DeadLetterOutcome,
    RetryOutcome,
    SnoozedOutcome,
    UnknownOutcome,
)
from onceward.work.claimed import Claimed
from onceward.work.failure_text import loggable, own_frame
from onceward.work.outcomes import Cancelled, Indeterminate, PayloadInvalid, Permanent, Retry, Snooze, TimedOut
from onceward.work.settle import describe
from onceward.work.task import Task

log = structlog.get_logger(__name__)

LONG_SNOOZE_S = 60.0
TRANSIENT = ("40001", "40P01")
AFTER_LOST_S = (0.05, 1.0, 5.0)
"""Delays before work that lost its connection runs again, by the number of earlier crashes."""


def judge(task: Task, work: Claimed, error: BaseException) -> AttemptOutcome:
    """Return the outcome that an error means for its work."""
    failures = work.attempts + 1
    match error:
        case Snooze():
            return SnoozedOutcome(error.after_s, describe(error))
        case Cancelled():
            return CancelledOutcome(describe(error))
        case Indeterminate():
            return UnknownOutcome(describe(error))
        case PayloadInvalid():
            return DeadLetterOutcome("payload_invalid", describe(error, "payload_invalid"), error.result)
        case TransactionEnded():
            return DeadLetterOutcome("permanent", describe(error, "permanent"))
        case Permanent():
            return DeadLetterOutcome("permanent", describe(error, "permanent"), error.result)
        case _ if not isinstance(error, Retry | TimedOut) and lost_connection(error):
            return CrashedOutcome(AFTER_LOST_S[min(work.crashes, 2)], describe(error, "connection_lost"))
        case _ if _is_transient(error):
            # Not the handler's fault: a deadlock victim, or work without a connection, has changed nothing. Not
            # counted.
            return SnoozedOutcome(0.05, describe(error))
        case _ if task.retry.exhausted(failures, work.max_attempts):
            reason = "timeout" if isinstance(error, TimedOut) else "max_attempts_exceeded"
            return DeadLetterOutcome(reason, describe(error, reason))
        case Retry() if error.after_s is not None:
            return RetryOutcome(error.after_s, describe(error))
        case _:
            return RetryOutcome(task.retry.wait_s(failures), describe(error))


def _is_transient(error: BaseException) -> bool:
    if isinstance(error, Unavailable):
        return True
    return isinstance(error, asyncpg.PostgresError) and getattr(error, "sqlstate", None) in TRANSIENT


def does_not_fit(outcome: AttemptOutcome) -> TypeGuard[DeadLetterOutcome]:
    return isinstance(outcome, DeadLetterOutcome) and outcome.reason == "payload_invalid"


def timed_out(outcome: AttemptOutcome) -> bool:
    error: dict[str, Any] | None = getattr(outcome, "error", None)
    return error is not None and error["type"] == TimedOut.__name__


def log_failure(work: Claimed, outcome: AttemptOutcome, *, critical: bool) -> None:
    """Log one line per failure: the error's type, its scrubbed message, the user's line. The rest is in `attempts`."""
    error: dict[str, Any] | None = getattr(outcome, "error", None)
    if error is None:
        return
    log_fields = {"kind": work.kind, "id": work.id, "task": work.task, "attempt": work.attempt, "error": error["type"]}
    log_fields["message"] = loggable(error["message"])
    if (at := own_frame(error.get("stack") or [])) is not None:
        log_fields["at"] = at
    if "hint" in error:
        log_fields["fix"] = error["hint"]
    match outcome:
        case DeadLetterOutcome(reason) if not critical:
            log.warning("work.failed", reason=reason, **log_fields)
        case DeadLetterOutcome(reason):
            log.error("work.dead_lettered", reason=reason, hint=f"onceward dead-letters show {work.id}", **log_fields)
        case RetryOutcome(due_in_s):
            log.warning("work.retry_scheduled", retry_in_s=round(due_in_s, 1), **log_fields)
        case SnoozedOutcome(due_in_s):
            # Work that waits for its turn snoozes every few seconds: only a long wait is worth a line.
            log.log(
                INFO if due_in_s >= LONG_SNOOZE_S else DEBUG, "work.snoozed", for_s=round(due_in_s, 1), **log_fields
            )
        case CrashedOutcome():
            log.info("work.crashed", **log_fields)
        case CancelledOutcome():
            log.info("work.cancelled", **log_fields)
        case _:
            log.info("work.outcome_unknown", **log_fields)


def or_ended(tx: Transaction | None, failure: BaseException) -> BaseException:
    """Return the failure, or that the handler had ended its transaction before it failed: a retry could repeat its
    effects."""
    if tx is None or not tx.was_ended or isinstance(failure, TransactionEnded):
        return failure
    return ended_and_failed(failure)
