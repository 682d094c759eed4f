"""The queries of the runbook run, and read nothing that grows with what is stored."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from onceward.db import Database
from tests.docs.sql_texts import sql_of

RUNBOOK = Path(__file__).parents[2] / "docs" / "runbook.md"
HISTORY = ("webhook_events", "attempts", "jobs")


def queries() -> list[str]:
    """Return the statements of the block, and the SELECTs within the text."""
    return [
        query
        for text in sql_of(RUNBOOK, RUNBOOK.read_text())
        for query in text.statements()
        if query.startswith("select")
    ]


def scans(plan: dict[str, Any]) -> list[tuple[str, str]]:
    own = [(plan["Relation Name"], plan["Node Type"])] if "Relation Name" in plan else []
    return own + [scan for child in plan.get("Plans", []) for scan in scans(child)]


async def test_the_queries_of_the_runbook_scan_no_history(db: Database) -> None:
    assert len(queries()) == 8
    await db.execute(
        """
        insert into onceward.webhook_events (webhook_id, event_id, provider, type, payload, status)
        select (select webhook_id from onceward.sources where name = 'sql'), 'evt_' || n, 'none', 'paid', '{}', 'success'
          from generate_series(1, 5000) n;
        insert into onceward.attempts (work_id, number, kind, task, outcome, error)
        select n, 1, 'job', 'noop', 'success', null from generate_series(1, 20000) n;
        insert into onceward.work (id, kind, task, queue, sort_at, attempts, dead_reason, dead_at)
        select n + 1000000, 'job', 'noop', 'default', now(), 1, case when n % 2 = 0 then 'permanent' end, now()
          from generate_series(1, 200) n;
        """
    )
    for table in (*HISTORY, "work"):
        await db.execute(f"vacuum analyze onceward.{table}")
    for query in queries():
        [plan] = await db.fetchval(f"explain (format json) {query}")
        for table, how in scans(plan["Plan"]):
            assert table not in HISTORY or how != "Seq Scan", (query, table)
        await db.fetch(query)
