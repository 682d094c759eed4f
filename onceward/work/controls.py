"""Operator commands: pause and resume queues, cancel and list work. They apply to all nodes."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from onceward.db import Database
from onceward.trust import audit
from onceward.trust.identity import Identity

QUEUES = """
with depth as (
    select w.queue,
           count(*) filter (where w.lease is null and w.dead_reason is null and w.sort_at <= onceward.now()) as due,
           count(*) filter (where w.lease is null and w.dead_reason is null and w.sort_at > onceward.now()) as later,
           count(*) filter (where w.lease is not null) as running,
           count(*) filter (where w.dead_reason is not null) as dead,
           extract(epoch from onceward.now() - min(w.sort_at) filter (
               where w.lease is null and w.dead_reason is null and w.sort_at <= onceward.now()))::float8 as oldest_due_s
      from onceward.work w group by w.queue
)
select coalesce(d.queue, q.name) as queue, coalesce(d.due, 0) as due, coalesce(d.later, 0) as later,
       coalesce(d.running, 0) as running, coalesce(d.dead, 0) as dead, d.oldest_due_s, q.paused_at, q.paused_by
  from depth d full join onceward.queues q on q.name = d.queue
 order by 1
"""

WORKERS = """
select w.id, w.name, w.version, w.queues, cardinality(w.tasks) as tasks, w.started_at, w.beat, w.beat_at, w.stopping,
       coalesce((select sum(cardinality(c.ids)) from onceward.claims c where c.worker = w.id), 0)::int as claimed
  from onceward.workers w order by w.started_at
"""

JOBS = """
select j.id, j.task, j.organization_id, j.created_at, j.caused_by, j.tags,
       case when w.id is null then coalesce(last.outcome, 'unknown')
            when w.dead_reason is not null then 'dead_letter'
            when w.lease is not null then 'processing'
            else 'pending' end as state,
       coalesce(w.attempts, last.number) as attempts, w.sort_at as due_at, w.queue, last.finished_at
  from onceward.jobs j
  left join onceward.work w on w.id = j.id
  left join lateral (
      select a.outcome, a.number, a.finished_at from onceward.attempts a where a.work_id = j.id
       order by a.finished_at desc limit 1
  ) last on true
 where ($1::text is null or j.task = $1) and ($2::bigint is null or j.id < $2)
   and ($3::uuid is null or j.organization_id = $3)
 order by j.id desc limit $4
"""


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
    """Cancel work. Return `cancelled` (it was waiting), `asked` (it runs; its worker stops it) or `gone` (it is finished or unknown)."""
    async with db.transaction(role="engine") as tx:
        outcome: str = await tx.fetchval("select onceward.cancel($1)", id)
        if outcome != "gone":
            await audit.record(tx, "work.cancel", entity_type="work", entity_id=id, actor=actor, reason=reason or None)
    return outcome


async def queues(db: Database) -> list[dict[str, Any]]:
    """Return the depth of each queue and the age of its oldest due work."""
    return [dict(row) for row in await db.fetch(QUEUES)]


async def workers(db: Database) -> list[dict[str, Any]]:
    """Return the registered workers with the number of rows that each has claimed."""
    return [dict(row) for row in await db.fetch(WORKERS)]


async def jobs(
    db: Database,
    *,
    task: str | None = None,
    before: int | None = None,
    organization: UUID | None = None,
    limit: int = 50,
) -> list[dict[str, Any]]:
    """Return jobs with their state, newest first."""
    return [dict(row) for row in await db.fetch(JOBS, task, before, organization, limit)]


async def show(db: Database, id: int) -> dict[str, Any] | None:
    """Return one job with its arguments and every attempt, or None."""
    row = await db.fetchrow("select * from onceward.jobs where id = $1", id)
    if row is None:
        return None
    attempts = await db.fetch("select * from onceward.attempts where work_id = $1 order by finished_at", id)
    unfinished = await db.fetchrow("select * from onceward.work where id = $1", id)
    return {
        **dict(row),
        "unfinished": None if unfinished is None else dict(unfinished),
        "attempts": [dict(each) for each in attempts],
    }
