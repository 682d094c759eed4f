"""A schedule that gets no runs, because no live scheduler knows it, is reported."""

from __future__ import annotations

from onceward.db import Database
from onceward.doctor.processes import check_schedules
from onceward.schedules.checks import overdue_schedules
from onceward.schedules.parts import observe_overdue

PLANT = """
insert into onceward.schedules (name, task, queue, every_s, missed, window_s, most, overlap, decided_until, next_at, paused_at)
values ($1, 'count', 'default', 60, 'once', 0, 1, 'skip', now(), now() - $2::text::interval, case when $3 then now() end)
"""


async def test_a_schedule_without_a_scheduler_is_reported_unless_it_is_paused(db: Database) -> None:
    await db.execute(PLANT, "young", "1 min", False)
    await db.execute(PLANT, "paused", "1 hour", True)
    assert await observe_overdue(db) == 0
    await db.execute(PLANT, "nightly", "1 hour", False)
    async with db.acquire() as conn:
        [problem] = await overdue_schedules(conn)
        assert problem.startswith("schedule nightly has been due for 60 min and got no run: start a scheduler")
        assert (await check_schedules(conn)).status == "fail"
    assert await observe_overdue(db) == 1
