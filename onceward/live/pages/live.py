"""The page of live queries: per node, its state, queries and subscribers."""

from __future__ import annotations

from typing import Any, cast

from onceward.db import Connection
from onceward.live.report import read
from onceward.web.dashboard.page import Page, View


async def load(view: View) -> dict[str, Any]:
    return {
        "title": "Live queries",
        "nodes": await read(cast(Connection, view.conn)),
        "declared": sorted(view.site.app.live.queries.values(), key=lambda each: each.name),
        "topics": sorted(view.site.app.live.topics),
    }


PAGES = (
    Page(
        name="live",
        path="/dashboard/live",
        title="Live queries",
        section="live",
        load=load,
        scope="admin",
        instance=True,
        every_s=2.0,
    ),
)
