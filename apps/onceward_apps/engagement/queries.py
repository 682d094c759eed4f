"""The live query of engagement: the funnel."""

from __future__ import annotations

from typing import Any

from onceward import Query
from onceward_apps.engagement.app import app
from onceward_apps.engagement.overview import overview

STALE_S = 10
"""States change too often to follow each change: a million of them in one run. The end of a batch is followed."""


@app.query(name="engagement.funnel", allow="viewer")
async def funnel(q: Query) -> dict[str, Any]:
    """Return the number of users in each state, with yesterday's moves."""
    q.watch("onceward.run_parts")
    q.ignore("engagement.state_counts", "engagement.transitions")
    q.stale_after(STALE_S)
    seen = await overview(q, q.organization)
    return {name: seen[name] for name in ("total", "funnel", "opted_out", "unreachable")}
