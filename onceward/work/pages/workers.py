"""The page of workers: claimed work, heartbeats and recent problems."""

from __future__ import annotations

from typing import Any

from onceward.statements import read_statement
from onceward.web.dashboard.page import Page, View

WORKERS = read_statement("work", "page_worker_list")
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
