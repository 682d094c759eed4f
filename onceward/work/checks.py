"""Invariants of work. Other packages call `work_has_a_body` for their own kinds of work."""

from __future__ import annotations

from collections.abc import Sequence

from onceward.db import Connection
from onceward.trust import Check
from onceward.work.liveness import look


def work_has_a_body(kind: str, table: str, *, id: str = "id") -> Check:
    """Return a check that all unfinished work of this kind has a row in `table`."""
    statement = (
        "select w.id from onceward.work w where w.kind = $1"
        f" and not exists (select from {table} r where r.{id} = w.id) limit 100"
    )

    async def check(conn: Connection) -> Sequence[str]:
        return [f"work {row['id']} ({kind}) has no row in {table}" for row in await conn.fetch(statement, kind)]

    return Check(f"work.{kind}_has_a_body", check)


async def check_no_job_is_lost(conn: Connection) -> Sequence[str]:
    """Check that each job of the last day is unfinished or has an attempt with its outcome."""
    rows = await conn.fetch(
        "select j.id, j.task from onceward.jobs j"
        " where j.created_at > onceward.now() - interval '1 day'"
        " and not exists (select from onceward.work w where w.id = j.id)"
        " and not exists (select from onceward.attempts a where a.work_id = j.id) limit 100"
    )
    return [f"job {row['id']} ({row['task']}) is neither unfinished nor ended" for row in rows]


async def check_nothing_is_stranded(conn: Connection) -> Sequence[str]:
    """Check that no work has been due, or claimed without progress, for a long time although nothing paused it."""
    found = await look(conn, rows=1000, lanes=100_000)
    return [str(each) for each in found.stranded if each.is_fault][:100]


CHECKS: tuple[Check, ...] = (
    work_has_a_body("job", "onceward.jobs"),
    Check("work.no_job_is_lost", check_no_job_is_lost),
    Check("work.nothing_is_stranded", check_nothing_is_stranded),
)
