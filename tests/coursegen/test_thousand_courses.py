"""Many courses at once, with slots that rise and fall and an account that is lost and restored in the middle.

The limits hold at every moment, nothing that waits holds a slot, and no text that was paid for is lost or paid for twice.
"""

from __future__ import annotations

import asyncio
from typing import Any
from uuid import uuid4

import pytest

from onceward.limits import AdaptiveLimit
from onceward.trust import verify
from onceward.work import Worker, WorkerOptions
from onceward_apps.coursegen import checks, line
from tests.coursegen.school import School

TIERS = ("FREE", "BASIC", "STANDARD", "PREMIUM")

# One statement, one snapshot: who holds slots, and who may.
FAULTS = """
with held as materialized (
    select s.key, s.work_id from onceward.limit_slots s
      join onceward.work w on w.id = s.work_id and w.dead_reason is null
)
select format('user %s of a limit of %s holds %s', h.key, min(c.user_limit), count(*)) as fault
  from held h join coursegen.courses c on c.job_id = h.work_id
 where h.key <> 'global' group by h.key having count(*) > min(c.user_limit)
union all
select format('course %s is %s, waits for %s, and holds %s slots', c.id, c.status, c.waits_for, count(h.key))
  from coursegen.courses c left join held h on h.work_id = c.job_id
 where c.status in ('queued', 'generating')
 group by c.id having count(h.key) <> case when c.admitted_at is null then 0 else 2 end
"""
GLOBAL = """
select (select count(*) from onceward.limit_slots s join onceward.work w on w.id = s.work_id and w.dead_reason is null
         where s.key = 'global') as held,
       (select at_most from onceward.limits where name = 'global') as at_most
"""
TEXTS = "select course_id, position, md5(content) as text from coursegen.course_lessons where content is not null"
PAID_TWICE = """
select course_id, item from coursegen.llm_calls where state = 'done' group by 1, 2 having count(*) > 1
"""
PAID_AND_LOST = """
select c.course_id, c.item from coursegen.llm_calls c
 where c.state = 'done' and c.item = 'lesson:1' and not exists (
     select from coursegen.course_lessons l where l.course_id = c.course_id and l.content is not null)
"""


class Watch:
    """Looks at the school again and again, and remembers every fault and every text that it has seen."""

    def __init__(self, school: School) -> None:
        self._school = school
        self._texts: dict[tuple[Any, int], str] = {}
        self._held = 0
        self._at_most = 3
        self.faults: set[str] = set()
        self.held: set[int] = set()

    async def look(self) -> None:
        """Compare one moment with the rules, and with the moment before."""
        db = self._school.db
        self.faults |= {row["fault"] for row in await db.fetch(FAULTS)}
        row = await db.fetchrow(GLOBAL)
        assert row is not None
        held, at_most = row["held"], row["at_most"]
        # A lowered limit stops nothing that runs, and nothing starts until enough has ended.
        if held > max(at_most, self._at_most, self._held):
            self.faults.add(f"{held} courses run under a global limit of {at_most}")
        self._held, self._at_most = held, at_most
        self.held.add(held)
        for lesson in await db.fetch(TEXTS):
            seen = self._texts.setdefault((lesson["course_id"], lesson["position"]), lesson["text"])
            if seen != lesson["text"]:
                self.faults.add(f"the text of course {lesson['course_id']} was replaced")
        assert self.faults == set()
        await line.admit(self._school.engine)  # a waiting job does it once a minute

    async def until(self, done: int) -> None:
        """Look until this number of courses have ended."""
        async with asyncio.timeout(1200):
            while await self.ended() < done:
                await self.look()
                await asyncio.sleep(0.02)

    async def ended(self) -> int:
        return await self._school.db.fetchval(
            "select count(*) from coursegen.courses where status in ('completed', 'failed', 'cancelled')"
        )

    async def lost_texts(self) -> int:
        left = {(row["course_id"], row["position"]): row["text"] for row in await self._school.db.fetch(TEXTS)}
        return sum(left.get(key) != text for key, text in self._texts.items())


async def ask(school: School, courses: int) -> None:
    """Let users of all tiers ask, each for four courses, twenty requests at once."""
    users = [uuid4() for _ in range(max(4, courses // 4))]
    for number, user in enumerate(users):
        await school.set_tier(TIERS[number % len(TIERS)], user)
    room = asyncio.Semaphore(20)

    async def one(number: int) -> None:
        async with room:
            user = users[number % len(users)]
            course = await school.add_course(user=user, lessons=1, title=f"Course {number}")
            await school.accept(course, user=user)

    await asyncio.gather(*(one(number) for number in range(courses)))


@pytest.mark.acceptance("004-P thousand")
@pytest.mark.timeout(1500)
@pytest.mark.parametrize("courses", [24, pytest.param(1000, marks=pytest.mark.slow)])
async def test_courses_at_once_keep_every_limit_and_every_paid_text(school: School, courses: int) -> None:
    school.configure(waiting_most=courses, waiting_per_user=courses, account_wait_s=1)
    load = [10.0, 10.0]
    adaptive = AdaptiveLimit(school.db, measure=lambda: (load[0], load[1]))

    async def adapt(cpu: float) -> None:
        load[0] = cpu
        adaptive._cpu = None
        await school.db.execute("update onceward.limits set changed_at = changed_at - interval '2 minutes'")
        await adaptive.step()

    engine = school.engine
    options = WorkerOptions(concurrency=32, poll_s=0.1)
    worker = Worker(school.db, engine.registry, engine.waker, options=options, open_tx=engine.open_tx)
    watch = Watch(school)
    await worker.start()
    try:
        asking = asyncio.create_task(ask(school, courses))
        await watch.until(courses // 8)
        for _ in range(2):  # courses wait: three, five, ten slots
            await watch.look()
            await adapt(10.0)
        await watch.until(courses // 4)
        for _ in range(courses):  # the account is lost, and every course that tries finds it refused
            school.openai.use_up_quota()
        async with asyncio.timeout(60):
            while (
                not await school.db.fetchval("select count(*) from coursegen.model_pauses") or await school.held() > 1
            ):
                await watch.look()
        assert await watch.ended() < courses
        await adapt(70.0)
        school.openai._plans.clear()  # it works again
        await watch.until(courses // 2)
        await adapt(90.0)
        await watch.until(courses * 3 // 4)
        await adapt(10.0)
        school.openai.break_stream()
        await asking
        await watch.until(courses)
    finally:
        await worker.stop()
    assert {3, 10} <= watch.held, "the slots were full before and after the limit rose"
    assert max(watch.held) == 10
    rows = await school.db.fetch("select status, error_code, count(*) from coursegen.courses group by 1, 2")
    assert [tuple(row) for row in rows] == [("completed", None, courses)]
    assert await watch.lost_texts() == 0
    assert await school.db.fetch(PAID_TWICE) == []
    assert await school.db.fetch(PAID_AND_LOST) == []
    assert await school.held() == 0
    assert [result for result in await verify(school.db, checks.CHECKS) if not result.ok] == []
