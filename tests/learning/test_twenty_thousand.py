"""A cohort with 20,000 students is started, taught, certified and cancelled, with memory that does not grow with it.

`ONCEWARD_TEST_STUDENTS=5000` takes another number.
"""

from __future__ import annotations

import gc
import os
import threading
import time
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Self
from uuid import UUID

import asyncpg
import psutil
import pytest
from orjson import dumps

from onceward.db import Database
from onceward.testing import drain
from onceward_apps.learning import attendance, certificate_pdf, sessions, workflows
from onceward_apps.learning.store import curriculum
from tests.learning.classroom import Classroom
from tests.learning.school import PRICE, School
from tests.learning.server import STUDENT, Server, running
from tests.learning.test_large_cohorts import PRESENT

STUDENTS = int(os.environ.get("ONCEWARD_TEST_STUDENTS", "20000"))
PAYING = 300
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


class PeakMemory:
    """Measures how much memory the process has at most while the block runs, above what it has at the start."""

    added_mb = 0.0

    def __enter__(self) -> Self:
        gc.collect()
        self._process = psutil.Process()
        self._before = self._process.memory_info().rss
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._sample, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()
        print(f"memory: at most {self.added_mb:.1f} MB more")

    def _sample(self) -> None:
        ended = False
        while not ended:
            ended = self._ended.wait(0.02)
            self.added_mb = max(self.added_mb, (self._process.memory_info().rss - self._before) / (1 << 20))


async def fill(db: Database | asyncpg.Connection, organization: UUID, cohort: UUID) -> None:
    await db.execute(PEOPLE, organization, cohort, STUDENTS)
    await db.execute("update onceward.capacity_pools set sold = $1 where key = 'cohort:' || $2::uuid", STUDENTS, cohort)
    await db.execute("analyze")


async def full(room: Classroom, **more: Any) -> UUID:
    cohort = await room.cohort(capacity=STUDENTS, **more)
    await fill(room.school.db, room.school.organization, cohort)
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
    with PeakMemory() as memory:
        await school.set_status(cohort, "CONFIRMED")
        await drained(room)
        assert await mails(room, "cohort-confirmed") == STUDENTS
        await school.set_status(cohort, "IN_PROGRESS")
        [session] = await room.sessions(cohort)
        hour = timedelta(hours=1)
        later = {"starts_at": session["starts_at"] + hour, "ends_at": session["ends_at"] + hour}
        async with school.transaction() as tx:
            await sessions.change(tx, session["id"], title=session["title"], **later, actor="op")
        await drained(room)
        assert await mails(room, "session-changed") == STUDENTS
        await school.later(days=3)
        async with school.transaction() as tx:
            absent = [f"student-{n}@example.org" for n in range(1, 101)]
            entered = await attendance.check_off(tx, session["id"], absent=absent, actor="op")
            assert max(entered.students, entered.changed) == STUDENTS
            page = await curriculum.enrollments(tx, cohort, 250, None)
        await drained(room)
        assert await school.count("attendance_observations", "attended") == STUDENTS - 100
        assert await school.count("attendance_observations") == STUDENTS
        assert len(page) == 250
    assert memory.added_mb < MOST_GROWTH_MB
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
    with PeakMemory() as memory:
        await school.set_status(cohort, "COMPLETED")
        await drained(room)
        assert await school.count("certificates", "document is not null") == STUDENTS
        assert await mails(room, "certificate-issued") == STUDENTS
    assert memory.added_mb < MOST_GROWTH_MB
    await school.verify()


async def test_it_is_cancelled(room: Classroom, monkeypatch: pytest.MonkeyPatch) -> None:
    # The rate of refunds is what a payment service takes. Nobody paid here, so the rows are the work.
    monkeypatch.setattr(workflows, "settings", lambda: SimpleNamespace(refunds_per_second=100_000))
    cohort = await full(room)
    with PeakMemory() as memory:
        await room.school.set_status(cohort, "CANCELLED", reason="storm")
        await drained(room)
        assert await room.school.count("enrollments", "status = 'REFUNDED'") == STUDENTS
        assert await mails(room, "cohort-cancelled-refund") == STUDENTS
    assert memory.added_mb < MOST_GROWTH_MB
    await room.school.verify()


async def test_some_hundred_paid_and_are_refunded_when_it_is_cancelled(
    school: School, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workflows, "settings", lambda: SimpleNamespace(refunds_per_second=100_000))
    cohort = await school.cohort(capacity=PAYING)
    for _ in range(PAYING):
        await school.enrol(cohort)
    await school.set_status(cohort, "CANCELLED", reason="storm")
    await school.deliver()
    assert await school.count("enrollments", "status = 'REFUNDED' and refund_amount = $1", PRICE) == PAYING
    assert [each["amount"] for each in school.stripe.books.refunds.values()] == [PRICE] * PAYING
    assert len([key for template, key in await school.mails() if template == "cohort-cancelled-refund"]) == PAYING
    assert (await school.row("cohorts", id=cohort))["refunds_processed"] == PAYING
    await school.verify()


@pytest.fixture
async def server(database_url: str, tmp_path: Path) -> AsyncIterator[Server]:
    async with running(database_url, tmp_path) as server:
        yield server


async def test_what_a_student_sees_stays_small_and_comes_soon(server: Server, database_url: str) -> None:
    cohort = await server.cohort(max_capacity=STUDENTS)
    async with server.engine.transaction(organization=server.organization) as tx:
        for n in range(20):
            await curriculum.add_item(tx, cohort, kind="lesson", title=f"Lesson {n}", body="x" * 10_000, position=n)
    owner = await asyncpg.connect(database_url)
    await fill(owner, server.organization, cohort)
    await owner.execute("update learning.cohorts set status = 'IN_PROGRESS' where id = $1", cohort)
    await owner.execute(PRESENT, cohort, STUDENTS)
    await owner.close()
    row = await server.db.fetchrow(
        "select e.id, u.id as user_id from learning.enrollments e join learning.users u on u.id = e.user_id"
        " where u.email = 'student-77@example.org'"
    )
    assert row is not None
    token = server.jwt(row["user_id"])
    said, _ = await server.call("POST", f"{STUDENT}/cohorts/{cohort}/chat", {"message": "hello"}, token=token)
    assert said == 201
    found: dict[str, Any] = {}
    for query, arguments in (
        ("student_home", {"enrollment_id": row["id"]}),
        ("chat", {"cohort_id": cohort}),
        ("unread", {"cohort_id": cohort, "user_id": row["user_id"]}),
        ("online_users", {"cohort_id": cohort}),
        ("enrollment_count", {"cohort_id": cohort}),
    ):
        began = time.monotonic()
        found[query] = await server.live(f"learning.{query}", token=token, **arguments)
        took_s = time.monotonic() - began
        print(f"{query}: {took_s * 1000:.0f} ms, {len(dumps(found[query], default=str))} bytes")
        assert took_s < 5, query
        assert len(dumps(found[query], default=str)) < 20_000, query
    assert (len(found["student_home"]["items"]), found["unread"]) == (20, {"unread": 0})
    assert [each["message"] for each in found["chat"]] == ["hello"]
    assert (found["online_users"]["count"], len(found["online_users"]["users"])) == (STUDENTS, 50)
    assert found["enrollment_count"]["activeEnrollmentCount"] == STUDENTS
