"""What work holds about a person: arguments of jobs, results and errors of attempts."""

from __future__ import annotations

from onceward.db import Transaction
from onceward.trust.erase import Eraser, Person, contains


async def erase_arguments(tx: Transaction, person: Person) -> int:
    """Blank the arguments of finished jobs. What is still to do needs them; it is erased when asked for again later."""
    return await tx.fetchval(
        "with blanked as (update onceward.jobs j set args = '{\"erased\": true}', tags = null"
        f" where {contains('args', '$1')} and not exists (select from onceward.work w where w.id = j.id) returning 1)"
        " select count(*) from blanked",
        person.json,
    )


async def erase_attempts(tx: Transaction, person: Person) -> int:
    """Blank results and errors that mention the person; outcome and times stay."""
    return await tx.fetchval(
        "with blanked as (update onceward.attempts set result = null, error = null"
        f" where {contains('result', '$1')} or {contains('error', '$1')} returning 1) select count(*) from blanked",
        person.json,
    )


ERASERS: tuple[Eraser, ...] = (Eraser("jobs", erase_arguments), Eraser("attempts", erase_attempts))
