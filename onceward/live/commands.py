"""`live`: list the nodes with their live queries, and reset the feed."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import typer

from onceward.cli.rendering import JsonOption, document, listing
from onceward.cli.session import opened_database, run

COLUMNS = ("node", "state", "connections", "query", "groups", "subscribers", "runs", "failing", "lag_ms", "progress_s")

group = typer.Typer(no_args_is_help=True, help="Live queries of all nodes: `ls`, `reset`.")


def register(cli: typer.Typer) -> None:
    cli.add_typer(group, name="live")


@group.command("ls")
def ls(as_json: JsonOption = False) -> None:
    """List nodes with their queries. `lag_ms`: age of the oldest change that a result does not include; `progress_s`:
    time since the last read of the feed. Lag with progress means load; a node without progress is `stuck`."""
    from onceward.live.report import NodeReport, read

    async def work() -> list[NodeReport]:
        async with opened_database() as db, db.acquire() as conn:
            return await read(conn)

    nodes = run(work())
    if as_json:
        document([asdict(node) for node in nodes])
        return
    rows: list[dict[str, Any]] = []
    for node in nodes:
        whole = {
            "node": node.name,
            "state": node.state,
            "connections": node.connections,
            "progress_s": node.progress_s if node.reading else "idle",
            "lag_ms": node.lag_ms,
        }
        rows += [{**whole, **query} for query in node.queries] or [whole]
    listing(rows, columns=COLUMNS, as_json=False, empty="no node serves live queries")


@group.command("reset")
def reset() -> None:
    """Make every node run all its queries again. Needed after a restore, or after writes that bypassed triggers."""
    from onceward.cli.rendering import say

    async def work() -> int:
        async with opened_database() as db:
            return await db.fetchval("select onceward.reset_live()")

    say(f"the feed is now in epoch {run(work())}; every node runs all its queries again within a second")
