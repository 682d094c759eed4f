"""The waiting line: its order, its length, and the accounts for which courses wait."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from onceward import Query, Tx
from onceward.db import Transaction

LOCK = "select pg_advisory_xact_lock(hashtextextended('coursegen.line', 0))"
LINE = """
select l.*, coalesce(l.not_before <= onceward.now(), true) as is_due from coursegen.waiting_line($1) l order by l.place
"""
ADMIT = """
-- The time that a started run has waited does not count against its deadline.
update coursegen.courses
   set admitted_at = onceward.now(), waits_for = null, not_before = null, released_at = null,
       started_at = started_at + (onceward.now() - coalesce(released_at, onceward.now())), updated_at = onceward.now()
 where id = $1
"""
JOIN_AGAIN = """
update coursegen.courses
   set status = 'queued', admitted_at = null, waits_for = $3, not_before = onceward.now() + make_interval(secs => $4),
       released_at = coalesce(released_at, onceward.now()), updated_at = onceward.now()
 where id = $1 and job_id = $2 and status in ('queued', 'generating')
"""
PAUSES = "select organization_id, next_try_at <= onceward.now() as may_try from coursegen.model_pauses"
PAUSE = """
insert into coursegen.model_pauses as p (organization_id, reason, next_try_at)
values (onceward.organization(), $1, onceward.now() + make_interval(secs => $2))
on conflict (organization_id) do update set reason = excluded.reason, next_try_at = excluded.next_try_at
returning p.since = onceward.now() as is_new
"""


async def lock_line(tx: Transaction) -> None:
    """Let one transaction at a time change the line."""
    await tx.execute(LOCK)


async def line(tx: Transaction, share_s: int) -> list[Any]:
    """Return the waiting courses of all organizations in their order."""
    return await tx.fetch(LINE, share_s)


async def numbers(tx: Tx, user_id: UUID, course_id: UUID) -> Any:
    """Return how many other courses wait for a slot: `everybody` and `own`."""
    return await tx.fetchrow("select * from coursegen.waiting_numbers($1, $2)", user_id, course_id)


async def place(reader: Tx | Query, course_id: UUID, share_s: int) -> Any:
    return await reader.fetchrow("select * from coursegen.place_in_line($1, $2)", course_id, share_s)


async def admit(tx: Transaction, course_id: UUID, job_id: int) -> None:
    """Record that the job of a course holds its slots, and make the job due."""
    await tx.execute(ADMIT, course_id)
    await tx.execute("select onceward.run_now($1)", job_id)


async def hold_back(tx: Transaction, course_ids: Sequence[UUID]) -> None:
    """Record that courses wait for an account, not for a slot."""
    if course_ids:
        await tx.execute(
            "update coursegen.courses set waits_for = 'account'"
            " where id = any($1) and waits_for is distinct from 'account'",
            list(course_ids),
        )


async def join_again(tx: Tx, course_id: UUID, *, job_id: int, waits_for: str, after_s: float) -> None:
    await tx.execute(JOIN_AGAIN, course_id, job_id, waits_for, after_s)


async def pauses(tx: Transaction) -> dict[UUID, bool]:
    """Return the organizations whose account is refused, and whether it is time to try again."""
    return {row["organization_id"]: row["may_try"] for row in await tx.fetch(PAUSES)}


async def paused(tx: Tx) -> Any:
    """Return the pause of the current organization, or None."""
    return await tx.fetchrow("select reason, since, next_try_at from coursegen.model_pauses")


async def pause(tx: Tx, reason: str, wait_s: int) -> bool:
    """Pause the current organization. True: it was not paused before."""
    return bool(await tx.fetchval(PAUSE, reason, wait_s))


async def move_next_try(tx: Transaction, organization: UUID, wait_s: int) -> None:
    await tx.execute(
        "update coursegen.model_pauses set next_try_at = onceward.now() + make_interval(secs => $2)"
        " where organization_id = $1",
        organization,
        wait_s,
    )


async def unpause(tx: Transaction) -> bool:
    """End the pause of the current organization: its courses wait for slots again."""
    ended = await tx.fetchval(
        "delete from coursegen.model_pauses where organization_id = onceward.organization() returning true"
    )
    if ended:
        await tx.execute(
            "update coursegen.courses set waits_for = 'slot' where waits_for = 'account' and admitted_at is null"
            " and status in ('queued', 'generating') and organization_id = onceward.organization()"
        )
    return bool(ended)
