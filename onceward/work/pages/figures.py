"""The numbers of the overview. Each query is bounded: none of them counts the whole history."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from onceward.statements import read_statement, scoped
from onceward.web.dashboard.page import View
from onceward.web.dashboard.pagination import NEWEST

SAMPLE = 10_000
"""The most unfinished rows that are counted exactly; a larger depth is an estimate."""
REACH = 100_000
"""The number of ids, back from the newest, in which arrivals are counted."""
BUSY = 1_000
"""From this rate of attempts per second on, charts show the shorter time span."""
LONG_S, SHORT_S = 300, 30

DEPTH = f"""
with sample as materialized (
    select w.lease is not null as running, w.dead_reason is not null as dead, w.sort_at <= onceward.now() as due,
           w.sort_at,
           w.attempts
      from onceward.work w
     where w.queue <> 'unhandled'  -- set aside on purpose: no worker claims these
       and (w.source is null or not w.source = any(array(select p.source from onceward.paused_sources p)))
     limit {SAMPLE + 1}
)
select count(*) filter (where due and not running and not dead) as due,
       count(*) filter (where not due and not running and not dead) as later,
       count(*) filter (where not due and not running and not dead and attempts > 0) as retrying,
       count(*) filter (where running) as running,
       count(*) filter (where dead) as dead,
       count(*) > {SAMPLE} as more,
       extract(epoch from onceward.now() - min(sort_at) filter (where due and not running and not dead))::float8
           as oldest_s
  from sample
"""

OUTCOMES = read_statement("work", "page_outcomes")

# No volatile expression (clock_timestamp, a sequence) is compared with an indexed column: it would prevent an index
# scan.
RATE = "select count(*) from onceward.attempts a where a.finished_at >= statement_timestamp() - interval '2 seconds'"

ARRIVED_JOBS = """
select date_trunc('second', r.created_at) as at, count(*) as arrived from onceward.jobs r
 where r.id > $3 and r.created_at >= $1 and r.created_at < $2 group by 1
"""
LATENCY = read_statement("work", "page_latency")

DEPTH_OF_ONE = "select * from onceward.depth_of_organization($1, $2)"

DEAD_LATELY = scoped("""
select count(*) from (
    select from onceward.work w
     where w.dead_reason is not null and w.dead_at > onceward.now() - interval '15 minutes'
       and ($1::uuid is null or w.organization_id = $1) limit 1001) lately
""")

PAUSED = "select q.name from onceward.queues q where q.paused_at is not null order by q.name limit 20"
PARKED = (
    "select q.name, q.parked_for from onceward.queues q where q.parked_until > clock_timestamp()"
    " order by q.name limit 20"
)

WORKERS = read_statement("work", "page_worker_counts")

UNSERVED = read_statement("work", "page_unserved")

DATABASE = read_statement("work", "page_database")


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
        "depth": await _depth(view),
        "latency": await conn.fetchrow(LATENCY, 60.0),
        "dead_lately": await conn.fetchval(DEAD_LATELY.of(view.organization), view.organization),
        "workers": None,
        "database": None,
        "paused": [],
        "parked": [],
        "unserved": [],
    }
    if view.everything:
        figures["workers"] = await conn.fetchrow(WORKERS)
        figures["paused"] = [row["name"] for row in await conn.fetch(PAUSED)]
        figures["unserved"] = await conn.fetch(UNSERVED)
        figures["database"] = await conn.fetchrow(DATABASE)
        figures["parked"] = await conn.fetch(PARKED)
    return figures


async def _depth(view: View) -> Any:
    if view.organization is None:
        return await view.conn.fetchrow(DEPTH)
    return await view.conn.fetchrow(DEPTH_OF_ONE, view.organization, SAMPLE)
