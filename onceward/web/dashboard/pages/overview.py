"""The overview: is it healthy, and if not, where to look."""

from __future__ import annotations

from typing import Any

from onceward.web.dashboard.charts import HEIGHT, WIDTH, chart, now_per_s
from onceward.web.dashboard.figures import SAMPLE, series, standing
from onceward.web.dashboard.looking import Looking, Page
from onceward.web.dashboard.verdict import judge

SLOWEST = """
with recent as materialized (
    select a.task, extract(epoch from a.finished_at - a.started_at)::float8 as took_s, a.outcome <> 'success' as failed
      from onceward.attempts a
     where a.finished_at >= statement_timestamp() - interval '60 seconds' and a.started_at is not null
     limit 20000
)
select task, count(*) as count, count(*) filter (where failed) as failed,
       percentile_disc(0.5) within group (order by took_s) as p50,
       percentile_disc(0.99) within group (order by took_s) as p99
  from recent group by task order by count desc limit 8
"""
ESTIMATE = "select greatest(reltuples, 0)::float8 from pg_class where oid = 'onceward.work'::regclass"


async def load(looking: Looking) -> dict[str, Any]:
    found = await standing(looking)
    recent = await series(looking)
    rates = {
        name: {"now": now_per_s(values), "chart": chart(values)}
        for name, values in (("arrived", recent.arrived), ("processed", recent.processed), ("failed", recent.failed))
    }
    return {
        "title": "Overview",
        "verdict": judge(found, recent),
        "rates": rates,
        "span_s": len(recent.arrived),
        "width": WIDTH,
        "height": HEIGHT,
        "tasks": await looking.conn.fetch(SLOWEST),
        "sample": SAMPLE,
        "estimate": await looking.conn.fetchval(ESTIMATE) if found["depth"]["more"] and looking.everything else None,
        "installed": looking.site.tables,
        **found,
    }


PAGES = (
    Page(
        name="overview",
        path="/",
        title="Overview",
        section="overview",
        load=load,
        template="overview.html",
        every_s=1.0,
    ),
)
