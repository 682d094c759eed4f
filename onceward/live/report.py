"""Each node reports its queries and progress to a small table, so that operators can distinguish slow from stuck."""

from __future__ import annotations

import os
import platform
import time
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from onceward.db import Connection, Database
from onceward.live import metrics
from onceward.live.feed_loop import FeedLoop
from onceward.live.hub import Hub
from onceward.statements import read_statement

WRITE = read_statement("live", "write_report")

FORGET = "delete from onceward.live_nodes where seen_at < clock_timestamp() - interval '1 hour'"

READ = read_statement("live", "read_reports")

SILENT_S = 30.0


@dataclass(frozen=True, slots=True)
class NodeReport:
    """The state of one node, as `onceward live ls` shows it."""

    node: UUID
    name: str
    state: str
    """`ok`; `behind`: results lag; `failing`: a query fails; `stuck`: the feed is not read; `silent`: no reports."""
    started_at: datetime
    seen_at: datetime
    connections: int
    queries: list[dict[str, Any]]
    lag_ms: float
    progress_s: float | None
    reading: bool


def describe(hub: Hub, feed: FeedLoop) -> dict[str, Any]:
    """Return the report of this node, and update its gauges."""
    now = time.monotonic()
    queries: dict[str, dict[str, Any]] = {}
    subscriptions = 0
    lag_ms = 0.0
    for group in hub.groups.values():
        entry = queries.setdefault(
            group.definition.name,
            {"query": group.definition.name, "groups": 0, "subscribers": 0, "runs": 0, "failing": 0, "lag_ms": 0.0},
        )
        entry["groups"] += 1
        entry["subscribers"] += len(group.subscribers)
        entry["runs"] += group.runs
        entry["failing"] += group.failures > 0
        subscriptions += len(group.subscribers)
        if group.behind is not None:
            lag = (now - group.behind_since) * 1000
            entry["lag_ms"] = max(entry["lag_ms"], round(lag, 1))
            lag_ms = max(lag_ms, lag)
    followers = sum(len(channel.followers) for channel in hub.channels.values())
    metrics.GROUPS.set(len(hub.groups))
    metrics.SUBSCRIPTIONS.set(subscriptions + followers)
    return {
        "connections": len(hub.connections),
        "queries": sorted(queries.values(), key=lambda each: each["query"]),
        "topics": {"channels": len(hub.channels), "followers": followers},
        "lag_ms": round(lag_ms, 1),
        "reading": hub.in_use.is_set(),
        "progress_s": _progress_s(hub, feed, now),
        "version": hub.versions.version_text,
    }


def _progress_s(hub: Hub, feed: FeedLoop, now: float) -> float | None:
    # A feed at rest is not read. So the time counts from the moment when it was needed again, not from before the rest.
    if hub.in_use.is_set():
        return round(now - max(feed.progress_at or 0.0, hub.needed_since), 3)
    return None if feed.progress_at is None else round(now - feed.progress_at, 3)


async def write(db: Database, node: UUID, report: dict[str, Any], *, lease_s: float) -> None:
    """Store the report of this node. This also renews the lease of the users who are present through it."""
    await db.execute(WRITE, node, f"{platform.node()}:{os.getpid()}", lease_s, report)
    await db.execute(FORGET)


async def read(conn: Connection) -> list[NodeReport]:
    """Return the reports of all nodes that have reported within the last hour."""
    return [_read_one(row) for row in await conn.fetch(READ)]


def _read_one(row: Any) -> NodeReport:
    report = row["report"]
    queries: list[dict[str, Any]] = report.get("queries", [])
    progress = report.get("progress_s")
    reading = bool(report.get("reading"))
    state = "ok"
    if row["silent_s"] > SILENT_S:
        state = "silent"
    elif reading and (progress is None or progress > 5):
        state = "stuck"
    elif any(each["failing"] for each in queries):
        state = "failing"
    elif report.get("lag_ms", 0) > 1000:
        state = "behind"
    return NodeReport(
        node=row["node"],
        name=row["name"],
        state=state,
        started_at=row["started_at"],
        seen_at=row["seen_at"],
        connections=report.get("connections", 0),
        queries=queries,
        lag_ms=report.get("lag_ms", 0.0),
        progress_s=progress,
        reading=reading,
    )
