"""The numbers of the overview. Each query is bounded: none of them counts the whole history."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from onceward.web.dashboard.page import View
from onceward.web.dashboard.pagination import NEWEST

SAMPLE = 50_000
"""The most unfinished rows that are counted exactly; a larger depth is an estimate."""
REACH = 100_000
"""The number of ids, back from the newest, in which arrivals are counted."""
BUSY = 1_000
"""From this rate of attempts per second on, charts show the shorter time span."""
LONG_S, SHORT_S = 300, 30

DEPTH = f"""
with sample as materialized (
    select w.lease is not null as running, w.dead_reason is not null as dead, w.sort_at <= onceward.now() as due, w.sort_at,
           w.attempts
      from onceward.work w
     where w.queue <> 'unhandled'  -- set aside on purpose: no worker claims these
     limit {SAMPLE + 1}
)
select count(*) filter (where due and not running and not dead) as due,
       count(*) filter (where not due and not running and not dead) as later,
       count(*) filter (where not due and not running and not dead and attempts > 0) as retrying,
       count(*) filter (where running) as running,
       count(*) filter (where dead) as dead,
       count(*) > {SAMPLE} as more,
       extract(epoch from onceward.now() - min(sort_at) filter (where due and not running and not dead))::float8 as oldest_s
  from sample
"""

OUTCOMES = """
select date_trunc('second', a.finished_at) as at,
       count(*) filter (where a.outcome = 'success') as processed,
       count(*) filter (where a.outcome in ('retry', 'failed', 'dead_letter', 'crashed', 'unknown')) as failed
  from onceward.attempts a
 where a.finished_at >= $1 and a.finished_at < $2
 group by 1
"""

# No volatile expression (clock_timestamp, a sequence) is compared with an indexed column: it would prevent an index scan.
RATE = "select count(*) from onceward.attempts a where a.finished_at >= statement_timestamp() - interval '2 seconds'"

ARRIVED_JOBS = """
select date_trunc('second', r.created_at) as at, count(*) as arrived from onceward.jobs r
 where r.id > $3 and r.created_at >= $1 and r.created_at < $2 group by 1
"""
LATENCY = """
with recent as materialized (
    select extract(epoch from a.finished_at - a.started_at)::float8 as took_s
      from onceward.attempts a
     where a.finished_at >= statement_timestamp() - make_interval(secs => $1) and a.started_at is not null
       and a.outcome in ('success', 'retry', 'failed', 'dead_letter')
     limit 20000
)
select percentile_disc(0.5) within group (order by took_s) as p50,
       percentile_disc(0.95) within group (order by took_s) as p95,
       percentile_disc(0.99) within group (order by took_s) as p99,
       max(took_s) as most, count(*) as count
  from recent
"""

DEAD_LATELY = """
select count(*) from (select from onceward.work w where w.dead_reason is not null and w.dead_at > onceward.now() - interval '15 minutes' limit 1001) lately
"""

PAUSED = "select q.name from onceward.queues q where q.paused_at is not null order by q.name limit 20"
PARKED = "select q.name, q.parked_for from onceward.queues q where q.parked_until > clock_timestamp() order by q.name limit 20"

WORKERS = """
select count(*) as all, count(*) filter (where w.stopping) as stopping,
       count(*) filter (where w.beat_at < clock_timestamp() - interval '15 seconds') as silent
  from onceward.workers w
"""

UNCLAIMED = """
select w.task, count(*) as count from (
    select w.task from onceward.work w
     where w.lease is null and w.dead_reason is null and w.sort_at < onceward.now() - interval '1 minute' limit 5000
) w
 where not exists (select from onceward.workers k where w.task = any(k.tasks))
 group by 1 order by 2 desc limit 5
"""

DATABASE = """
select (select count(*) from pg_stat_activity where datname = current_database()) as connections,
       current_setting('max_connections')::int as most_connections,
       (select extract(epoch from max(clock_timestamp() - xact_start))::float8 from pg_stat_activity
         where datname = current_database() and pid <> pg_backend_pid() and backend_type = 'client backend') as longest_s,
       pg_database_size(current_database()) as bytes,
       (select blks_hit::float8 / nullif(blks_hit + blks_read, 0) from pg_stat_database where datname = current_database()) as hits,
       (select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock') as waiting,
       pg_is_in_recovery() as replica
"""


@dataclass(frozen=True, slots=True)
class Series:
    """Counts per second, starting at `start_s` (seconds since 1970)."""

    start_s: int
    arrived: list[int]
    processed: list[int]
    failed: list[int]


async def series(view: View) -> Series:
    """Return arrivals, successes and failures per second over five minutes, or half a minute under high load."""
    conn = view.conn
    now: Any = await conn.fetchval("select date_trunc('second', clock_timestamp())")
    rate = await conn.fetchval(RATE)
    span = LONG_S if rate < BUSY * 2 else SHORT_S
    begin: Any = await conn.fetchval("select $1::timestamptz - make_interval(secs => $2)", now, float(span))
    start_s = int(begin.timestamp())
    counts = Series(start_s, [0] * span, [0] * span, [0] * span)
    since: int = await conn.fetchval(NEWEST) - REACH
    for statement in (ARRIVED_JOBS, *view.site.contributed.arrivals):
        for row in await conn.fetch(statement, begin, now, since):
            counts.arrived[int(row["at"].timestamp()) - start_s] += row["arrived"]
    for row in await conn.fetch(OUTCOMES, begin, now):
        place = int(row["at"].timestamp()) - start_s
        counts.processed[place] += row["processed"]
        counts.failed[place] += row["failed"]
    return counts


async def standing(view: View) -> dict[str, Any]:
    """Return depth, dead letters and latency; for the whole instance also workers, queues and the database."""
    conn = view.conn
    figures: dict[str, Any] = {
        "depth": await conn.fetchrow(DEPTH),
        "latency": await conn.fetchrow(LATENCY, 60.0),
        "dead_lately": await conn.fetchval(DEAD_LATELY),
        "workers": None,
        "database": None,
        "paused": [],
        "parked": [],
        "unclaimed": [],
    }
    if view.everything:
        figures["workers"] = await conn.fetchrow(WORKERS)
        figures["paused"] = [row["name"] for row in await conn.fetch(PAUSED)]
        figures["unclaimed"] = await conn.fetch(UNCLAIMED)
        figures["database"] = await conn.fetchrow(DATABASE)
        figures["parked"] = await conn.fetch(PARKED)
    return figures
