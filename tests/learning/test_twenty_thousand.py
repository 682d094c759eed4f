"""A cohort with 20,000 students is started, taught, certified and cancelled, with memory that does not grow with it."""

from __future__ import annotations

import gc
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from onceward.testing import drain
from onceward_apps.learning import attendance, certificate_pdf, sessions, workflows
from onceward_apps.learning.store import curriculum
from tests.learning.classroom import Classroom
from tests.learning.school import School

STUDENTS = 20_000
MOST_GROWTH_MB = 48
"""A batch of 200 students with their mails takes a few megabytes; all 20,000 at once would take hundreds."""

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600), pytest.mark.acceptance("largeCohorts")]

PEOPLE = """
with added as (
    insert into learning.users (organization_id, email, name)
    select $1, 'student-' || n || '@example.org', 'Student ' || n from generate_series(1, $3::int) n returning id
), places as (
    insert into onceward.capacity_claims (organization_id, pool_id, quantity, holder, state, claimed_at)
    select $1, p.id, 1, 'user:' || a.id, 'sold', now()
      from added a cross join onceward.capacity_pools p where p.key = 'cohort:' || $2::uuid returning id, holder
)
insert into learning.enrollments (organization_id, user_id, cohort_id, amount_paid, currency, claim_id,
       access_expires_at)
select $1, a.id, $2, 0, 'EUR', p.id, now() + interval '365 days' from added a join places p on p.holder = 'user:' ||
       a.id
"""


def memory_mb() -> float:
    """Return the resident memory of this process."""
    gc.collect()
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0]) / 1024


async def full(room: Classroom, **more: Any) -> UUID:
    cohort = await room.cohort(capacity=STUDENTS, **more)
    db = room.school.db
    await db.execute(PEOPLE, room.school.organization, cohort, STUDENTS)
    await db.execute("update onceward.capacity_pools set sold = $1 where key = 'cohort:' || $2::uuid", STUDENTS, cohort)
    await db.execute("analyze")
    return cohort


async def drained(room: Classroom) -> None:
    """Run everything that is due; messages stay, because no channel is set up."""
    while await drain(room.engine, most=1_000_000):
        pass


async def mails(room: Classroom, template: str) -> int:
    return await room.school.db.fetchval("select count(*) from onceward.messages where template = $1", template)


@pytest.fixture
async def room(school: School) -> Classroom:
    return await Classroom.open(school)


async def test_it_is_confirmed_started_and_taught(room: Classroom) -> None:
    school = room.school
    cohort = await full(room, sessions=1, items=1)
    before = memory_mb()
    await school.set_status(cohort, "CONFIRMED")
    await drained(room)
    assert await mails(room, "cohort-confirmed") == STUDENTS
    await school.set_status(cohort, "IN_PROGRESS")
    [session] = await room.sessions(cohort)
    later = {"starts_at": session["starts_at"] + timedelta(hours=1), "ends_at": session["ends_at"] + timedelta(hours=1)}
    async with school.transaction() as tx:
        await sessions.change(tx, session["id"], title=session["title"], **later, actor="op")
    await drained(room)
    assert await mails(room, "session-changed") == STUDENTS
    await school.later(days=3)
    async with school.transaction() as tx:
        absent = [f"student-{n}@example.org" for n in range(1, 101)]
        assert await attendance.check_off(tx, session["id"], absent=absent, actor="op") == STUDENTS
        page = await curriculum.enrollments(tx, cohort, 250, None)
    assert len(page) == 250
    assert memory_mb() - before < MOST_GROWTH_MB
    await school.verify()


async def test_it_is_certified(room: Classroom, monkeypatch: pytest.MonkeyPatch) -> None:
    # Drawing takes a quarter of a second for each document, one after the other, and is tested by itself.
    monkeypatch.setattr(certificate_pdf, "render", lambda *_: b"%PDF-")
    school = room.school
    cohort = await full(room, items=1)
    await school.db.execute("update learning.enrollments set exit_survey_completed_at = now()")
    await school.db.execute(
        "insert into learning.progress (organization_id, enrollment_id, item_id)"
        " select e.organization_id, e.id, i.id from learning.enrollments e cross join learning.content_items i"
    )
    for status in ("CONFIRMED", "IN_PROGRESS"):
        await room.status(cohort, status)
        await school.db.execute(
            "insert into learning.cohort_status_history (organization_id, cohort_id, from_status, to_status, changed_by)"
            " select organization_id, id, 'OPEN', $2, 'test' from learning.cohorts where id = $1",
            cohort,
            status,
        )
    before = memory_mb()
    await school.set_status(cohort, "COMPLETED")
    await drained(room)
    assert await school.count("certificates", "document is not null") == STUDENTS
    assert await mails(room, "certificate-issued") == STUDENTS
    assert memory_mb() - before < MOST_GROWTH_MB
    await school.verify()


async def test_it_is_cancelled(room: Classroom, monkeypatch: pytest.MonkeyPatch) -> None:
    # The rate of refunds is what a payment service takes. Nobody paid here, so the rows are the work.
    monkeypatch.setattr(workflows, "settings", lambda: SimpleNamespace(refunds_per_second=100_000))
    cohort = await full(room)
    before = memory_mb()
    await room.school.set_status(cohort, "CANCELLED", reason="storm")
    await drained(room)
    assert await room.school.count("enrollments", "status = 'REFUNDED'") == STUDENTS
    assert await mails(room, "cohort-cancelled-refund") == STUDENTS
    assert memory_mb() - before < MOST_GROWTH_MB
    await room.school.verify()
