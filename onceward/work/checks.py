"""What must hold of work at any time. Other packages that have a kind of work use `work_has_a_body` for theirs."""

from __future__ import annotations

from collections.abc import Sequence

from onceward.db import Connection
from onceward.trust import Check


def work_has_a_body(kind: str, table: str, *, id: str = "id") -> Check:
    """Unfinished work of this kind has its row in `table`."""
    statement = (
        "select w.id from onceward.work w where w.kind = $1"
        f" and not exists (select from {table} r where r.{id} = w.id) limit 100"
    )

    async def check(conn: Connection) -> Sequence[str]:
        return [f"work {row['id']} ({kind}) has no row in {table}" for row in await conn.fetch(statement, kind)]

    return Check(f"work.{kind}_has_a_body", check)


async def check_no_job_is_lost(conn: Connection) -> Sequence[str]:
    """A job of the last day is either unfinished or has an attempt that says how it ended."""
    rows = await conn.fetch(
        "select j.id, j.task from onceward.jobs j"
        " where j.created_at > onceward.now() - interval '1 day'"
        " and not exists (select from onceward.work w where w.id = j.id)"
        " and not exists (select from onceward.attempts a where a.work_id = j.id) limit 100"
    )
    return [f"job {row['id']} ({row['task']}) is neither unfinished nor ended" for row in rows]


CHECKS: tuple[Check, ...] = (
    work_has_a_body("job", "onceward.jobs"),
    Check("work.no_job_is_lost", check_no_job_is_lost),
)
