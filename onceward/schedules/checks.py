"""The invariant of schedules: every due time of a schedule that is not paused gets a run."""

from __future__ import annotations

from collections.abc import Sequence

from onceward.db import Connection
from onceward.trust import Check

OVERDUE_S = 300.0
OVERDUE = """
select name, extract(epoch from onceward.now() - next_at)::float8 as age_s
  from onceward.schedules
 where paused_at is null and next_at < onceward.now() - make_interval(secs => $1)
   and abs(extract(epoch from onceward.now() - clock_timestamp())) < 60   -- not under the clock of a test
 order by next_at limit 100
"""


async def overdue_schedules(conn: Connection) -> Sequence[str]:
    """Return a line for each schedule whose run has been due for 5 minutes: no live scheduler knows the schedule."""
    return [
        f"schedule {row['name']} has been due for {row['age_s'] / 60:.0f} min and got no run: start a scheduler of its app, "
        f"or pause it if the app has it no more (`onceward cron pause {row['name']}`)"
        for row in await conn.fetch(OVERDUE, OVERDUE_S)
    ]


CHECKS: tuple[Check, ...] = (Check("schedules.nothing_is_overdue", overdue_schedules),)
