"""The checks of `onceward doctor` about what runs now: do the loops of every process work, and does all due work
run?"""

from __future__ import annotations

import orjson

from onceward.db import Connection
from onceward.db.processes import COUNTS_FOR_S, LIST
from onceward.doctor.finding import Finding
from onceward.schedules.checks import overdue_schedules
from onceward.work.liveness import look


async def check_loops(conn: Connection) -> Finding:
    """Check that no running process has a background loop that keeps failing or hangs."""
    if await conn.fetchval("select to_regclass('onceward.processes') is null"):
        return Finding("loops", "ok", "no process has noted itself")
    running = [row for row in await conn.fetch(LIST, COUNTS_FOR_S) if row["running"]]
    failing = [
        f"{loop} of {row['service']} on {row['host']}, pid {row['pid']} ({error})"
        for row in running
        for loop, error in sorted(orjson.loads(row["failing"]).items())
    ]
    if failing:
        remedy = (
            "look for `loop.failed` or `loop.hung` in the log of the process: it has the stack. The process is not "
            "ready; restart it if the loop hangs"
        )
        return Finding("loops", "fail", f"these loops keep failing or hang: {'; '.join(failing[:5])}", remedy)
    return Finding("loops", "ok", f"all background loops of {len(running)} processes work")


async def check_work(conn: Connection) -> Finding:
    """Check that no work has been due, or claimed without progress, for a long time although nothing paused it."""
    if await conn.fetchval("select to_regclass('onceward.claims') is null"):
        return Finding("work", "ok", "the schema does not exist yet")
    found = (await look(conn, lanes=20_000)).stranded
    faults = [str(each) for each in found if each.is_fault]
    if faults:
        more = f" (and {len(faults) - 3} more: `onceward verify`)" if len(faults) > 3 else ""
        return Finding("work", "fail", "; ".join(faults[:3]) + more, "see docs/runbook.md#work-is-stranded")
    if found:
        return Finding("work", "warn", f"backlog: {found[0]}", "")
    return Finding("work", "ok", "no work has been due for more than 5 minutes")


async def check_schedules(conn: Connection) -> Finding:
    """Check that every schedule that is not paused gets its runs."""
    if await conn.fetchval("select to_regclass('onceward.schedules') is null"):
        return Finding("schedules", "ok", "the schema does not exist yet")
    overdue = await overdue_schedules(conn)
    if overdue:
        return Finding("schedules", "fail", "; ".join(overdue[:3]), "see docs/runbook.md#work-is-stranded")
    return Finding("schedules", "ok", "no schedule is overdue")
