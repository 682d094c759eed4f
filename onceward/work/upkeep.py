"""Maintenance of the tables of work: release lost claims, set unknown jobs aside, prune finished jobs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta

import structlog

from onceward.db import Connection

log = structlog.get_logger(__name__)

RELEASE_UNKNOWN = """
with lost as (
    delete from onceward.claims where worker = $1 and lease = any($2::bigint[]) returning lease, ids
)
update onceward.work w
   set lease = null, claimed_at = null, slot = null, parent_slot = null
  from lost
 where w.id = any(lost.ids) and w.lease = lost.lease
returning w.id
"""

RELEASE_ORPHANS = """
update onceward.work w
   set lease = null, claimed_at = null, slot = null, parent_slot = null
 where w.lease is not null and w.queue <> 'external' and w.claimed_at < clock_timestamp() - make_interval(secs => $1)
   and not exists (select from onceward.claims c where c.lease = w.lease)
   and pg_try_advisory_xact_lock(727274)
returning w.id
"""

UNCLAIMED = """
with known as (
    select array_agg(distinct t) as tasks from onceward.workers w, unnest(w.tasks) t
), stray as (
    select w.id, w.task, w.kind, j.created_at
      from onceward.work w
      join onceward.jobs j on j.id = w.id
     where w.kind = 'job' and w.lease is null and w.dead_reason is null
       and w.sort_at <= onceward.now() - interval '5 seconds'
       and not w.task = any(coalesce((select tasks from known), '{}'))
     order by w.sort_at limit 1000
       for update of w skip locked
)
update onceward.work w
   set sort_at = case when s.created_at > onceward.now() - make_interval(secs => $1)
                      then onceward.now() + interval '30 seconds' else w.sort_at end,
       dead_reason = case when s.created_at > onceward.now() - make_interval(secs => $1) then null else 'no_handler' end,
       dead_at = case when s.created_at > onceward.now() - make_interval(secs => $1) then null else onceward.now() end
  from stray s
 where w.id = s.id
returning w.task, w.dead_reason
"""

PRUNE_JOBS = """
with mark as (
    select coalesce((select through from onceward.prune_marks where name = 'jobs'), 0) as through
), window_ as (
    select id, created_at from onceward.jobs where id > (select through from mark) order by id limit $2
), old as (
    select id from window_ where created_at < onceward.now() - $1::interval
), unfinished as (
    insert into onceward.prune_later (id)
    select o.id from old o where exists (select from onceward.work w where w.id = o.id)
    on conflict do nothing
), gone as (
    delete from onceward.jobs j using old o
     where j.id = o.id and not exists (select from onceward.work w where w.id = o.id)
    returning j.id
), spent as (
    delete from onceward.attempts a using gone g where a.work_id = g.id
), moved as (
    insert into onceward.prune_marks (name, through)
    select 'jobs', max(id) from old having max(id) is not null
    on conflict (name) do update set through = excluded.through
)
select count(*) from gone
"""

PRUNE_LATER = """
with done as (
    select p.id from onceward.prune_later p
     where not exists (select from onceward.work w where w.id = p.id) limit $1
), gone as (
    delete from onceward.jobs j using done d where j.id = d.id
), spent as (
    delete from onceward.attempts a using done d where a.work_id = d.id
)
delete from onceward.prune_later p using done d where p.id = d.id
"""


async def release_unknown(conn: Connection, worker: int, known: Callable[[int], bool]) -> int:
    """Release the rows of leases that this worker does not know: the replies of their claims were lost.

    A worker registers a lease before it sends the claim. The leases are read before `known` is called, so a claim that is
    made meanwhile is either not in the list or known.
    """
    held = await conn.fetch("select lease from onceward.claims where worker = $1", worker)
    lost = [row["lease"] for row in held if not known(row["lease"])]
    if not lost:
        return 0
    rows = await conn.fetch(RELEASE_UNKNOWN, worker, lost)
    if rows:
        log.warning("lost_claims.released", worker=worker, count=len(rows))
    return len(rows)


async def release_orphans(conn: Connection, *, older_than_s: float = 60.0) -> int:
    """Release rows whose lease has no row in `claims`.

    Such rows appear only if PostgreSQL loses commits: after a failover to a standby that lagged behind, or a crash with
    synchronous_commit off. The outcome of the work is lost, and its row in `claims` had been deleted before.
    """
    rows = await conn.fetch(RELEASE_ORPHANS, older_than_s)
    if rows:
        log.warning("orphaned_leases.released", count=len(rows), hint="did the database lose its last commits?")
    return len(rows)


async def forget_finished(conn: Connection, leases: Sequence[int]) -> None:
    """Delete the rows of claims that have no outstanding work."""
    if leases:
        await conn.execute("delete from onceward.claims where lease = any($1::bigint[])", leases)


async def set_aside_unclaimed(
    conn: Connection, *, dead_after: timedelta = timedelta(hours=24)
) -> dict[str, str | None]:
    """Delay jobs whose name no live worker knows; after `dead_after` they become dead letters. Return their names."""
    rows = await conn.fetch(UNCLAIMED, dead_after.total_seconds())
    reasons = {row["task"]: row["dead_reason"] for row in rows}
    for task, reason in reasons.items():
        log.warning(
            "job.set_aside", task=task, dead=reason is not None, hint="no running worker has a job of this name"
        )
    return reasons


async def prune(conn: Connection, *, keep: timedelta, at_once: int = 1000) -> int:
    """Delete finished jobs older than `keep` with their attempts. Starts at a stored id; never deletes dead letters."""
    pruned: int = await conn.fetchval(PRUNE_JOBS, keep, at_once)
    await conn.execute(PRUNE_LATER, at_once)
    return pruned
