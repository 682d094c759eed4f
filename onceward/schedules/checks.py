"""The invariant of schedules: every due time of a schedule that is not paused gets a run."""

from __future__ import annotations

from collections.abc import Sequence

from onceward.db import Connection
from onceward.statements import read_statement
from onceward.trust import Check

OVERDUE_S = 300.0
OVERDUE = read_statement("schedules", "overdue_schedules")


async def overdue_schedules(conn: Connection) -> Sequence[str]:
    """Return a line for each schedule whose run has been due for 5 minutes: no live scheduler knows the schedule."""
    return [
        f"schedule {row['name']} has been due for {row['age_s'] / 60:.0f} min and got no run: start a scheduler of its "
        f"app, or pause it if the app has it no more (`onceward cron pause {row['name']}`)"
        for row in await conn.fetch(OVERDUE, OVERDUE_S)
    ]


CHECKS: tuple[Check, ...] = (Check("schedules.nothing_is_overdue", overdue_schedules),)
