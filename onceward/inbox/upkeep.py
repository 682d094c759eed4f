"""The inbox's maintenance: unhandled types, expired claims, paused and rate-limited sources, old bodies.

Any node may run any step. Several nodes may run the same step at the same time.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

import structlog

from onceward.db import Connection, Database
from onceward.inbox import metrics, transmissions
from onceward.inbox.catalog import Catalog
from onceward.inbox.handlers import QUEUE, UNHANDLED_QUEUE
from onceward.inbox.sources import park
from onceward.statements import read_statement
from onceward.work import Loop, Waker

log = structlog.get_logger(__name__)

ROUTE = """
-- Move events whose type had no handler on arrival to the queue `events`, once a live worker handles the type.
with alive as materialized (
    select distinct t from onceward.workers w, unnest(w.tasks) t where not w.stopping
), waiting as materialized (
    -- A handler of the event's route takes precedence over the provider's general handler.
    select w.id, coalesce(own.t, general.t) as t
      from onceward.work w
      join onceward.webhook_events e on e.seq = w.id
      left join onceward.sources s on s.webhook_id = e.webhook_id
      left join alive own on own.t = coalesce(e.route, s.name) || '/' || e.type
      left join alive general on general.t = e.provider || '/' || e.type
     where w.queue = 'unhandled' and w.lease is null and w.dead_reason is null and coalesce(own.t, general.t) is not null
     order by w.sort_at limit 1000
       for update of w skip locked
)
update onceward.work w set queue = 'events', task = waiting.t, sort_at = least(w.sort_at, onceward.now())
  from waiting where w.id = waiting.id
returning w.id
"""

STRAYED = """
-- Move events whose handler was removed by a deploy to the queue `unhandled`, so that they follow the same rules as new events.
with alive as materialized (
    select distinct t from onceward.workers w, unnest(w.tasks) t where 'events' = any(w.queues)
), stray as materialized (
    select w.id from onceward.work w
     where w.queue = 'events' and w.kind = 'event' and w.lease is null and w.dead_reason is null
       and w.sort_at <= onceward.now() - make_interval(secs => $1)
       and exists (select from alive) and not exists (select from alive a where a.t = w.task)
     order by w.sort_at limit 1000
       for update of w skip locked
)
update onceward.work w set queue = 'unhandled' from stray where w.id = stray.id
returning w.id
"""

GIVE_UP = """
-- Mark events as done with the result `unhandled` if workers are alive and none of them handles the type.
with waiting as materialized (
    select w.id, w.organization_id, w.attempts, w.task
      from onceward.work w
      join onceward.webhook_events e on e.seq = w.id
      left join onceward.sources s on s.webhook_id = e.webhook_id
     where w.queue = 'unhandled' and w.kind = 'event' and w.lease is null and w.dead_reason is null
       and w.sort_at <= onceward.now() - make_interval(secs => $1)
       and exists (select from onceward.workers k where not k.stopping
                      and k.started_at <= clock_timestamp() - make_interval(secs => $2))
       and not exists (select from onceward.workers k, unnest(k.tasks) t
                        where t in (w.task, coalesce(e.route, s.name) || '/' || e.type))
     order by w.sort_at limit 500
       for update of w skip locked
), gone as (
    delete from onceward.work w using waiting where w.id = waiting.id
), noted as (
    insert into onceward.attempts (work_id, organization_id, number, kind, task, outcome, result)
    select id, organization_id, attempts + 1, 'event', task, 'success', '"unhandled"' from waiting
), done as (
    select e.provider, e.type, onceward.settled_event(w.id, 'success', w.attempts + 1, '"unhandled"', null)
      from waiting w join onceward.webhook_events e on e.seq = w.id
)
select provider, type, count(*) from done group by 1, 2
"""

WARN_ONCE = """
insert into onceward.unhandled_types (provider, type) values ($1, $2) on conflict do nothing returning 1
"""

TAKE_COUNTS = read_statement("inbox", "take_counts")

PACED = read_statement("inbox", "find_ready_rate_lane")

PRUNE = """
-- Strip the bodies of finished events older than $1, starting at a stored mark. The event id stays, to detect duplicates.
-- Sources with the same retention share a mark: $3 is their number of days, null for those that use the setting.
with mark as (
    select 'events:' || coalesce($3::int::text, 'default') as name
), passed as (
    select coalesce((select p.through from onceward.prune_marks p join mark using (name)), 0) as through
), old as materialized (
    select e.seq, e.webhook_id, e.status from onceward.webhook_events e
     where e.seq > (select through from passed) and e.received_at < onceward.now() - $1::interval
     order by e.seq limit $2
), ours as materialized (
    select o.seq, o.status from old o left join onceward.sources s on s.webhook_id = o.webhook_id
     where s.retention_days is not distinct from $3
), stripped as (
    update onceward.webhook_events e set payload = null, raw = null, headers = null, signature = null, settles = settles + 1
      from ours where e.seq = ours.seq and ours.status in ('success', 'failed')
    returning e.seq
), spent as (
    delete from onceward.attempts a using stripped where a.work_id = stripped.seq
), later as (
    insert into onceward.prune_events (seq)
    select seq from ours where status not in ('success', 'failed')
    on conflict do nothing
), moved as (
    insert into onceward.prune_marks (name, through)
    select (select name from mark), max(seq) from old having max(seq) is not null
    on conflict (name) do update set through = excluded.through
)
select (select count(*) from old)::int
"""

PRUNE_LATER = """
-- Strip the bodies of events that were unfinished or dead letters when the mark passed them, and have ended since.
with ended as materialized (
    select p.seq from onceward.prune_events p join onceward.webhook_events e using (seq)
     where e.status in ('success', 'failed') limit $1
), stripped as (
    update onceward.webhook_events e set payload = null, raw = null, headers = null, signature = null, settles = settles + 1
      from ended where e.seq = ended.seq
), spent as (
    delete from onceward.attempts a using ended where a.work_id = ended.seq
)
delete from onceward.prune_events p using ended where p.seq = ended.seq
"""

FORGET = """
-- Delete finished events that are older than the period in which duplicates are detected. Dead letters are never deleted.
with mark as (
    select coalesce((select through from onceward.prune_marks where name = 'event keys'), 0) as through
), old as materialized (
    select e.seq, e.status from onceward.webhook_events e
     where e.seq > (select through from mark) and e.received_at < onceward.now() - $1::interval
     order by e.seq limit $2
), gone as (
    delete from onceward.webhook_events e using old where e.seq = old.seq and old.status in ('success', 'failed')
), moved as (
    insert into onceward.prune_marks (name, through)
    select 'event keys', max(seq) from old having max(seq) is not null
    on conflict (name) do update set through = excluded.through
)
select (select count(*) from old)::int
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class UpkeepOptions:
    """How long maintenance waits before it acts, and how long bodies and event ids are kept."""

    unhandled_after_s: float = 60.0
    sql_claim_expiry_s: float = 900.0
    keep: timedelta = timedelta(days=30)
    keep_keys: timedelta = timedelta(days=400)


class Upkeep:
    """A component that runs the steps below in loops. Tests call each step directly."""

    def __init__(self, db: Database, catalog: Catalog, waker: Waker, *, options: UpkeepOptions | None = None) -> None:
        self._db = db
        self._catalog = catalog
        self._waker = waker
        self._options = options or UpkeepOptions()
        self._routing = Loop("unhandled", self.route, every_s=1.0)
        self._loops = [
            self._routing,
            Loop("unhandled given up", self.give_up, every_s=5.0),
            Loop("sql claims", self.expire, every_s=10.0),
            Loop("paused sources", self.park_strays, every_s=5.0),
            Loop("paced sources", self.pace, every_s=0.05),
            Loop("webhook counts", self.count, every_s=5.0),
            Loop("old events", self.prune, every_s=60.0),
        ]
        waker.listen(self._woken)

    async def start(self) -> None:
        for each in self._loops:
            await each.start()

    async def stop(self) -> None:
        for each in self._loops:
            await each.stop()

    def _woken(self, queue: str) -> None:
        if queue == UNHANDLED_QUEUE:
            self._routing.nudge()

    async def route(self) -> int:
        """Move unhandled events to the queue `events` if a live worker handles their type; return how many."""
        rows = await self._db.fetch(ROUTE)
        if rows:
            self._waker.wake(QUEUE)
        return len(rows)

    async def give_up(self) -> int:
        """Mark events that had no handler for `unhandled_after_s` as done; return how many. Log each type once."""
        patience_s = self._options.unhandled_after_s
        async with self._db.acquire() as conn:
            await conn.fetch(STRAYED, patience_s)
            rows = await conn.fetch(GIVE_UP, patience_s, patience_s)
            for row in rows:
                if await conn.fetchval(WARN_ONCE, row["provider"], row["type"]):
                    hint = f'write @app.on("{row["provider"]}", "{row["type"]}"), then `onceward events replay --type {row["type"]} --unhandled`'
                    log.warning("event_type.unhandled", provider=row["provider"], type=row["type"], hint=hint)
        return sum(row["count"] for row in rows)

    async def expire(self) -> int:
        """Release events that were claimed through SQL and never marked; return how many."""
        age = timedelta(seconds=self._options.sql_claim_expiry_s)
        return await self._db.fetchval("select webhook.release_expired($1)", age)

    async def park_strays(self) -> None:
        """Park events of paused sources that were committed while the source was being paused."""
        for source in self._catalog.sources():
            if source.paused:
                async with self._db.acquire() as conn:
                    await park(conn, source.webhook_id, source.mode, paused=True)

    async def pace(self) -> None:
        """Wake the workers when a rate-limited source may run its next event, instead of waiting for their next poll."""
        if self._catalog.paced and await self._db.fetchval(PACED):
            self._waker.wake(QUEUE)

    async def count(self) -> None:
        """Add what SQL clients and the command line did to the metrics of this node. Only one node counts each row."""
        for row in await self._db.fetch(TAKE_COUNTS):
            id, provider, label = str(row["webhook_id"]), row["provider"], row["label"]
            match row["metric"]:
                case "processing":
                    metrics.PROCESSED.labels(id, provider, label).inc(row["times"])
                case "dead_letter":
                    metrics.DEAD.labels(id, provider, label).inc(row["times"])
                case _:
                    # /metrics needs no credential and must not reveal the names that organizations give their keys.
                    operator = "key" if label.startswith("key:") else label
                    metrics.REPLAYED.labels(id, operator).inc(row["times"])

    async def prune(self, *, at_once: int = 1000) -> int:
        """Strip old bodies, then delete events past the duplicate period; return how many rows were examined."""
        looked = 0
        async with self._db.acquire() as conn:
            rows = await conn.fetch(
                "select distinct retention_days from onceward.sources where retention_days is not null"
            )
            for days in (None, *(row["retention_days"] for row in rows)):
                keep = self._options.keep if days is None else timedelta(days=days)
                looked += await _all(conn, PRUNE, keep, at_once, days)
            await conn.execute(PRUNE_LATER, at_once)
            await _all(conn, FORGET, self._options.keep_keys, at_once)
            await transmissions.forget(conn, self._options.keep_keys)
        return looked


async def _all(conn: Connection, statement: str, keep: timedelta, at_once: int, *more: object) -> int:
    """Repeat a statement until it examines fewer rows than its limit; return how many it examined in total."""
    looked = 0
    while True:
        passed: int = await conn.fetchval(statement, keep, at_once, *more)
        looked += passed
        if passed < at_once:
            return looked
