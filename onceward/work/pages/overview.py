"""The overview page: a verdict, rates and figures, with links to the details."""

from __future__ import annotations

from typing import Any

from onceward.web.dashboard.page import Page, View
from onceward.work.pages.charts import HEIGHT, WIDTH, chart, now_per_s
from onceward.work.pages.figures import SAMPLE, series, standing
from onceward.work.pages.verdict import judge

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


async def load(view: View) -> dict[str, Any]:
    figures = await standing(view)
    statuses = [await status(view) for status in view.site.contributed.status]
    recent = await series(view)
    rates = {
        name: {"now": now_per_s(values), "chart": chart(values)}
        for name, values in (("arrived", recent.arrived), ("processed", recent.processed), ("failed", recent.failed))
    }
    return {
        "title": "Overview",
        "verdict": judge(figures, recent, [reason for status in statuses for reason in status.reasons]),
        "contributed": [figure for status in statuses for figure in status.figures],
        "rates": rates,
        "span_s": len(recent.arrived),
        "width": WIDTH,
        "height": HEIGHT,
        "tasks": await view.conn.fetch(SLOWEST),
        "sample": SAMPLE,
        "estimate": await view.conn.fetchval(ESTIMATE) if figures["depth"]["more"] and view.everything else None,
        "installed": view.site.tables,
        **figures,
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
