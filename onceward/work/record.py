"""Write an outcome down for certain: wait out an outage, and where PostgreSQL refuses a value, keep less of it.

An outcome that is not written leaves its work leased, and then run again: an outside call would be repeated because the
text of its answer could not be stored.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Any, assert_never

import asyncpg
import structlog

from onceward.db import BROKEN, Connection, Database, DatabaseError, loudness
from onceward.work.claimed import Claimed
from onceward.work.outcomes import Again, Crashed, Dead, NotKnown, Outcome, Stopped, Succeeded

log = structlog.get_logger(__name__)

FIRST_PAUSE_S = 0.1
LONGEST_PAUSE_S = 5.0

_PASSING = ("08", "25", "40", "53", "55", "57", "58")
"""Classes of SQLSTATEs that pass: connections, read-only after a failover, conflicts, resources, locks, shutdown, disks."""


def is_refused(error: BaseException) -> bool:
    """Return whether these values will be refused however often they are sent: by PostgreSQL, the driver or our code."""
    if isinstance(error, asyncpg.PostgresError):
        return (getattr(error, "sqlstate", None) or "22000")[:2] not in _PASSING
    return not isinstance(error, (*BROKEN, DatabaseError, TimeoutError))


@dataclass(frozen=True, slots=True)
class Written:
    """What was written down; not `kept` when the lease had been lost."""

    outcome: Outcome
    kept: bool


async def record(
    db: Database, work: Claimed, outcome: Outcome, write: Callable[[Connection, Outcome], Awaitable[Written]]
) -> Written:
    """Call `write` until it has written.

    A refused outcome is written again with less in it; if PostgreSQL refuses even that, the work becomes a dead letter.
    """
    pause_s = FIRST_PAUSE_S
    refusals = 0
    while True:
        try:
            async with db.acquire() as conn:
                return await write(conn, outcome)
        except Exception as error:
            fields: dict[str, Any] = {
                "id": work.id,
                "kind": work.kind,
                "task": work.task,
                "error": type(error).__name__,
            }
            if not is_refused(error):
                log.log(loudness(error), "settle_delayed", **fields)
            else:
                refusals += 1
                log.error("settle_refused", sqlstate=getattr(error, "sqlstate", None), times=refusals, **fields)
                if refusals <= 2:
                    outcome = with_less(outcome, error) if refusals == 1 else unrecorded(error)
                    continue
        await asyncio.sleep(pause_s)
        pause_s = min(LONGEST_PAUSE_S, pause_s * 2)


def with_less(outcome: Outcome, refusal: BaseException) -> Outcome:
    """Return the same outcome without the texts that came from outside."""
    note = {"not_kept": f"PostgreSQL refused to store it: {_name(refusal)}"}
    match outcome:
        case Succeeded():
            return Succeeded(note)
        case Dead():
            return replace(outcome, error=_bare(outcome.error) | note, result=None)
        case Again() | Crashed() | Stopped() | NotKnown():
            return replace(outcome, error=_bare(outcome.error) | note)
        case _:
            assert_never(outcome)


def unrecorded(refusal: BaseException) -> Dead:
    """Return the outcome of work that has ended in a way that cannot be stored at all."""
    return Dead("not_recorded", {"type": "NotRecorded", "message": _name(refusal), "reason": "not_recorded"})


def _bare(error: dict[str, Any]) -> dict[str, Any]:
    kept = {name: error.get(name) for name in ("type", "reason", "sqlstate")}
    return {name: ascii(value)[1:-1][:200] for name, value in kept.items() if isinstance(value, str)}


def _name(error: BaseException) -> str:
    return f"{type(error).__name__} {getattr(error, 'sqlstate', None) or ''}".strip()
