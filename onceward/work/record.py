"""Write an outcome reliably: wait during an outage, and store less of the outcome if PostgreSQL refuses a value.

Work whose outcome is not written runs again. A call to an outside service would be repeated only because the text of
its answer could not be stored.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Any, assert_never

import asyncpg
import structlog

from onceward.db import BROKEN, Connection, Database, DatabaseError, loudness, retry
from onceward.work.attempt_outcome import (
    AttemptOutcome,
    CancelledOutcome,
    CrashedOutcome,
    DeadLetterOutcome,
    RetryOutcome,
    SnoozedOutcome,
    SuccessOutcome,
    UnknownOutcome,
)
from onceward.work.claimed import Claimed

log = structlog.get_logger(__name__)

_TEMPORARY = ("08", "25", "40", "53", "55", "57", "58")
"""Temporary SQLSTATE classes: connections, read-only after a failover, conflicts, resources, locks, shutdown, disks."""
_REPAIRABLE = ("42", "XX")
"""A function, table or permission is missing, or PostgreSQL has an internal error: an operator can repair most of
these."""
PATIENCE_S = 300.0
"""How long an outcome waits for a repair before its values are blamed."""


def is_refused(error: BaseException, *, waited_s: float = 0.0) -> bool:
    """Return whether PostgreSQL, the driver or our code refuses these values for good, so that a retry cannot help.

    `waited_s` is how long the outcome has been waiting to be written.
    """
    if isinstance(error, asyncpg.PostgresError):
        kind = (getattr(error, "sqlstate", None) or "22000")[:2]
        return kind not in _TEMPORARY and (kind not in _REPAIRABLE or waited_s > PATIENCE_S)
    return not isinstance(error, (*BROKEN, DatabaseError))


@dataclass(frozen=True, slots=True)
class Written:
    """The outcome that was written. `kept` is false if the lease was lost and nothing was written."""

    outcome: AttemptOutcome
    kept: bool


async def record(
    db: Database,
    work: Claimed,
    outcome: AttemptOutcome,
    write: Callable[[Connection, AttemptOutcome], Awaitable[Written]],
) -> Written:
    """Call `write` until it succeeds.

    If PostgreSQL refuses the outcome, `write` gets the outcome without outside texts. If PostgreSQL refuses that too,
    the work becomes a dead letter.
    """
    refusals = 0
    since = time.monotonic()

    async def attempt() -> Written:
        async with db.acquire() as conn:
            return await write(conn, outcome)

    def on_failure(error: Exception, _pause_s: float) -> None:
        nonlocal outcome, refusals
        fields = {"id": work.id, "kind": work.kind, "task": work.task, "error": type(error).__name__}
        if not is_refused(error, waited_s=time.monotonic() - since):
            log.log(loudness(error), "outcome.delayed", sqlstate=getattr(error, "sqlstate", None), **fields)
            return
        refusals += 1
        log.error("outcome.refused", sqlstate=getattr(error, "sqlstate", None), times=refusals, **fields)
        if refusals <= 2:
            outcome = with_less(outcome, error) if refusals == 1 else unrecorded(error)

    return await retry(attempt, on_failure)


def with_less(outcome: AttemptOutcome, refusal: BaseException) -> AttemptOutcome:
    """Return the same outcome without the handler's result and error texts."""
    note = {"not_kept": f"PostgreSQL refused to store it: {_name(refusal)}"}
    match outcome:
        case SuccessOutcome():
            return SuccessOutcome(note)
        case DeadLetterOutcome():
            return replace(outcome, error=_bare(outcome.error) | note, result=None)
        case RetryOutcome() | SnoozedOutcome() | CrashedOutcome() | CancelledOutcome() | UnknownOutcome():
            return replace(outcome, error=_bare(outcome.error) | note)
        case _:
            assert_never(outcome)


def unrecorded(refusal: BaseException) -> DeadLetterOutcome:
    """Return the outcome of work whose own outcome PostgreSQL refuses to store."""
    return DeadLetterOutcome(
        "not_recorded", {"type": "NotRecorded", "message": _name(refusal), "reason": "not_recorded"}
    )


def _bare(error: dict[str, Any]) -> dict[str, Any]:
    kept = {name: error.get(name) for name in ("type", "reason", "sqlstate")}
    return {name: ascii(value)[1:-1][:200] for name, value in kept.items() if isinstance(value, str)}


def _name(error: BaseException) -> str:
    return f"{type(error).__name__} {getattr(error, 'sqlstate', None) or ''}".strip()
