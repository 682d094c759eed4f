"""Operator commands: pause and resume queues, cancel and list work. They apply to all nodes."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from onceward.db import Database
from onceward.statements import scoped
from onceward.trust import audit
from onceward.trust.identity import Identity
from onceward.windows import Walked, Window, walk
from onceward.work.statements import JOBS, QUEUES, WAITING_ORGANIZATIONS, WORKERS

LIST_JOBS = scoped(JOBS)
JOBS_WINDOW = scoped("""
select id from onceward.jobs
 where id < $1 and id >= $2 and ($4::uuid is null or organization_id = $4) order by id desc offset $3 - 1 limit 1
""")


async def pause(db: Database, queue: str, *, actor: str | Identity, reason: str = "") -> None:
    """Pause a queue: no node claims from it until it is resumed. Running work finishes."""
    name = actor.actor if isinstance(actor, Identity) else actor
    async with db.transaction(role="engine") as tx:
        await tx.execute(
            "insert into onceward.queues (name, paused_at, paused_by) values ($1, onceward.now(), $2)"
            " on conflict (name) do update set paused_at = onceward.now(), paused_by = $2",
            queue,
            name,
        )
        await audit.record(tx, "queue.pause", entity_type="queue", entity_id=queue, actor=actor, reason=reason or None)


async def resume(db: Database, queue: str, *, actor: str | Identity) -> bool:
    """Resume a queue. Return False if it was not paused."""
    async with db.transaction(role="engine") as tx:
        done = await tx.fetchval(
            "update onceward.queues set paused_at = null, paused_by = null where name = $1 and paused_at is not null"
            " returning name",
            queue,
        )
        if done is not None:
            await audit.record(tx, "queue.resume", entity_type="queue", entity_id=queue, actor=actor)
    return done is not None


async def cancel(db: Database, id: int, *, actor: str | Identity, reason: str = "") -> str:
    """Cancel work.

    Return `cancelled` (it was waiting), `asked` (it runs; its worker stops it) or `gone` (it is finished or unknown).
    """
    async with db.transaction(role="engine") as tx:
        outcome: str = await tx.fetchval("select onceward.cancel($1)", id)
        if outcome != "gone":
            await audit.record(tx, "work.cancel", entity_type="work", entity_id=id, actor=actor, reason=reason or None)
    return outcome


MOST_COUNTED = 10_000


async def queues(db: Database, *, most: int = MOST_COUNTED) -> list[dict[str, Any]]:
    """Return the depth of each queue and the age of its oldest due work.

    Each number is exact up to `most` and never larger. `more` is true if a number is only a lower bound.
    """
    return [dict(row) for row in await db.fetch(QUEUES, most)]


async def waiting(db: Database, *, limit: int = 20, most: int = MOST_COUNTED) -> list[dict[str, Any]]:
    """Return the organizations whose work waits outside lanes, by queue, those that wait longest first.

    `due` is exact up to `most`. Work of no organization has the organization None.
    """
    return [dict(row) for row in await db.fetch(WAITING_ORGANIZATIONS, limit, most)]


async def workers(db: Database) -> list[dict[str, Any]]:
    """Return the registered workers with the number of rows that each has claimed."""
    return [dict(row) for row in await db.fetch(WORKERS)]


async def jobs(
    db: Database,
    *,
    task: str | None = None,
    before: int | None = None,
    organization: UUID | None = None,
    state: str | None = None,
    limit: int = 50,
    most: int | None = None,
) -> Walked:
    """Return jobs with their state, newest first: all, or those in this state. Examines `most` jobs at most."""
    windows = (Window(JOBS_WINDOW.of(organization), (organization,)),)
    statement = LIST_JOBS.of(organization)
    return await walk(db, statement, task, state, organization, windows=windows, want=limit, before=before, most=most)


async def show(db: Database, id: int, *, organization: UUID | None = None) -> dict[str, Any] | None:
    """Return one job with its arguments and every attempt, or None. `organization` restricts it to jobs of that one."""
    row = await db.fetchrow(
        "select * from onceward.jobs where id = $1 and ($2::uuid is null or organization_id = $2)", id, organization
    )
    if row is None:
        return None
    attempts = await db.fetch("select * from onceward.attempts where work_id = $1 order by number, finished_at", id)
    unfinished = await db.fetchrow("select * from onceward.work where id = $1", id)
    return {
        **dict(row),
        "unfinished": None if unfinished is None else dict(unfinished),
        "attempts": [dict(each) for each in attempts],
    }
