"""Maintain the outbox: warn about and disable failing endpoints, end deliveries to disabled endpoints, prune old data.

Each step is small and safe to repeat; any node may run it.
"""

from __future__ import annotations

from datetime import timedelta

import structlog

from onceward.db import Connection, Database
from onceward.outbox import metrics
from onceward.trust import audit

log = structlog.get_logger(__name__)

WINDOW = timedelta(hours=24)
MOST_FAILURES = 10
MOST_RATE = 0.5
LEAST_SPREAD = timedelta(hours=1)
WARN_FROM = 6
"""The owner is warned after this many failures if the failure rate is also too high."""

FAILING = """
select e.endpoint_id, e.organization_id, e.warned_at, f.failed, f.first_at, f.last_at
  from onceward.endpoints e
 cross join lateral (
    select count(*) as failed, min(d.failed_at) as first_at, max(d.failed_at) as last_at
      from onceward.deliveries d
     where d.endpoint_id = e.endpoint_id and d.failed_at is not null
       and d.failed_at > greatest(e.enabled_at, onceward.now() - $1::interval)
 ) f
 where e.active and f.failed >= $2
"""
DELIVERED = """
select count(*) from onceward.deliveries d
 where d.endpoint_id = $1 and d.status = 'success' and d.failed_at is null
   and d.id >= coalesce((select min(p.id) from onceward.published p where p.created_at > onceward.now() - $2::interval), 0)
   and d.last_attempt_at > (select e.enabled_at from onceward.endpoints e where e.endpoint_id = $1)
"""
SWEEP = """
with off as (
    select w.id
      from onceward.endpoints e
      join onceward.work w on w.lane = e.endpoint_id::text and w.queue in ('deliveries', 'deliveries-retry')
     where not e.active and w.kind = 'delivery' and w.lease is null and w.dead_reason is null
     limit $1 for update of w skip locked
), ended as (
    delete from onceward.work w using off where w.id = off.id
    returning w.id, w.organization_id, w.attempts, w.task
), failed as (
    update onceward.deliveries d
       set status = 'failed', error = 'the endpoint is disabled', failed_at = coalesce(d.failed_at, onceward.now())
      from ended where d.id = ended.id
)
select count(*)::int,
       onceward.record_attempts(array_agg(row(
           id, organization_id, attempts + 1, 'delivery', task, 'cancelled', null, clock_timestamp(), clock_timestamp(), null,
           '{"type": "EndpointDisabled", "message": "the endpoint is disabled", "reason": "endpoint_disabled"}'
       )::onceward.attempts))
  from ended
"""
PRUNE = """
with mark as (
    select coalesce((select through from onceward.prune_marks where name = 'published'), 0) as through
), window_ as (
    select p.id, p.created_at from onceward.published p where p.id > (select through from mark) order by p.id limit $2
), old as (
    select w.id from window_ w where w.created_at < onceward.now() - $1::interval
       and not exists (select from onceward.deliveries d join onceward.work k on k.id = d.id where d.caused_by = w.id)
), gone as (
    delete from onceward.deliveries d using old where d.caused_by = old.id returning d.id
), spent as (
    delete from onceward.attempts a using gone where a.work_id = gone.id
), stripped as (
    update onceward.published p set body = null from old where p.id = old.id and p.key is not null
), dropped as (
    delete from onceward.published p using old where p.id = old.id and p.key is null
), moved as (
    insert into onceward.prune_marks (name, through)
    select 'published', max(w.id) from window_ w where w.created_at < onceward.now() - $1::interval
       and w.id < coalesce((select min(x.id) from window_ x
                             where x.created_at < onceward.now() - $1::interval and x.id not in (select id from old)),
                           9223372036854775807)
    having max(w.id) is not null
    on conflict (name) do update set through = excluded.through
)
select count(*) from old
"""
FORGET_KEYS = """
delete from onceward.published p
 where p.id in (select id from onceward.published where body is null and created_at < onceward.now() - $1::interval limit 1000)
"""


async def watch(db: Database) -> list[str]:
    """Warn about failing endpoints and disable those above the limit. Return the ids of the disabled endpoints."""
    disabled: list[str] = []
    for row in await db.fetch(FAILING, WINDOW, WARN_FROM):
        async with db.transaction(role="engine", organization=row["organization_id"]) as tx:
            delivered: int = await tx.fetchval(DELIVERED, row["endpoint_id"], WINDOW)
            rate = row["failed"] / (row["failed"] + delivered)
            details = {"failures": row["failed"], "delivered": delivered, "failure_rate": round(rate, 3)}
            if rate <= MOST_RATE:
                continue
            if row["failed"] > MOST_FAILURES and row["last_at"] - row["first_at"] >= LEAST_SPREAD:
                if await tx.fetchval(
                    "select onceward.disable_endpoint($1, 'failing', $2)", row["endpoint_id"], details
                ):
                    await audit.record(
                        tx,
                        "endpoint.disabled",
                        entity_type="endpoint",
                        entity_id=row["endpoint_id"],
                        actor="system",
                        reason="too many deliveries failed",
                        metadata=details,
                    )
                    disabled.append(str(row["endpoint_id"]))
            elif row["warned_at"] is None:
                await tx.execute("select onceward.warn_endpoint($1, $2)", row["endpoint_id"], details)
    if disabled:
        metrics.DISABLED.inc(len(disabled))
        log.warning("endpoints.disabled", endpoints=disabled, hint="too many deliveries failed; the owners get a mail")
    return disabled


async def sweep(conn: Connection, *, at_once: int = 1000) -> int:
    """End up to `at_once` waiting deliveries of disabled endpoints. They can be recovered when the endpoint is enabled."""
    return await conn.fetchval(SWEEP, at_once)


async def prune(conn: Connection, *, keep: timedelta, keep_keys: timedelta, at_once: int = 500) -> int:
    """Delete old events and deliveries. An event with an idempotency key stays, without its body, for `keep_keys`."""
    pruned: int = await conn.fetchval(PRUNE, keep, at_once)
    await conn.execute(FORGET_KEYS, keep_keys)
    await conn.execute("delete from onceward.portal_tokens where expires_at < onceward.now()")
    await conn.execute("delete from onceward.endpoint_secrets where expires_at < onceward.now() - interval '1 day'")
    return pruned
