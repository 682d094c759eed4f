"""The checks of `onceward doctor` about what runs now: do the loops of every process work?"""

from __future__ import annotations

import orjson

from onceward.db import Connection
from onceward.db.processes import COUNTS_FOR_S, LIST
from onceward.doctor.finding import Finding


async def check_loops(conn: Connection) -> Finding:
    """Check that no running process has a background loop that keeps failing."""
    if await conn.fetchval("select to_regclass('onceward.processes') is null"):
        return Finding("loops", "ok", "no process has noted itself")
    running = [row for row in await conn.fetch(LIST, COUNTS_FOR_S) if row["running"]]
    failing = [
        f"{loop} of {row['service']} on {row['host']}, pid {row['pid']} ({error})"
        for row in running
        for loop, error in sorted(orjson.loads(row["failing"]).items())
    ]
    if failing:
        remedy = "look for `loop.failed` in the log of the process: it has the traceback. The process is not ready"
        return Finding("loops", "fail", f"these loops keep failing: {'; '.join(failing[:5])}", remedy)
    return Finding("loops", "ok", f"all background loops of {len(running)} processes work")
