"""The page of workers: claimed work, heartbeats and recent problems."""

from __future__ import annotations

from typing import Any

from onceward.web.dashboard.page import Page, View

WORKERS = """
select w.id, w.name, w.version, w.queues, w.tasks, w.started_at, w.beat_at, w.stopping,
       w.beat_at < clock_timestamp() - interval '15 seconds' as silent,
       coalesce((select sum(cardinality(c.ids)) from onceward.claims c where c.worker = w.id), 0)::int as claimed
  from onceward.workers w order by w.started_at limit 500
"""
TROUBLES = """
select event_type, severity, job_id, metadata, timestamp from onceward.system_metrics order by timestamp desc limit 20
"""


async def load(view: View) -> dict[str, Any]:
    return {
        "title": "Workers",
        "workers": await view.conn.fetch(WORKERS),
        "troubles": await view.conn.fetch(TROUBLES),
    }


PAGES = (
    Page(
        name="workers",
        path="/dashboard/workers",
        title="Workers",
        section="workers",
        load=load,
        scope="admin",
        instance=True,
    ),
)
