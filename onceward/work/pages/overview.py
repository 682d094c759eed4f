"""The overview page: a verdict, rates and figures, with links to the details."""

from __future__ import annotations

from typing import Any

from onceward.statements import read_statement
from onceward.web.dashboard.page import Page, View
from onceward.work.pages.charts import HEIGHT, WIDTH, chart, now_per_s
from onceward.work.pages.figures import SAMPLE, series, standing
from onceward.work.pages.verdict import judge

SLOWEST = read_statement("work", "page_slowest")
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
