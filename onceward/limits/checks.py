"""The invariants of limits that `onceward verify` checks."""

from __future__ import annotations

from collections.abc import Sequence

from onceward.db import Connection
from onceward.statements import read_statement
from onceward.trust.invariants import Check

ABOVE_LIMIT = read_statement("limits", "check_global_limit")


async def check_work_holds_one_slot_a_key(conn: Connection) -> Sequence[str]:
    """An unfinished item of work holds at most one slot under a key."""
    rows = await conn.fetch(
        "select s.key, s.work_id, count(*) as slots from onceward.limit_slots s"
        " join onceward.work w on w.id = s.work_id"
        " group by 1, 2, s.organization_id having count(*) > 1 limit 100"
    )
    return [f"work {row['work_id']} holds {row['slots']} slots under {row['key']}" for row in rows]


async def check_global_limit_was_not_exceeded(conn: Connection) -> Sequence[str]:
    """No slot taken since the last change of the limit has a number above the limit."""
    rows = await conn.fetch(ABOVE_LIMIT)
    return [f"work {row['work_id']} holds slot {row['slot']} of {row['at_most']} of the global limit" for row in rows]


CHECKS: tuple[Check, ...] = (
    Check("limits.work_holds_one_slot_a_key", check_work_holds_one_slot_a_key),
    Check("limits.global_limit_was_not_exceeded", check_global_limit_was_not_exceeded),
)
