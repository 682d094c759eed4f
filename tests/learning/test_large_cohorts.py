"""Nothing that grows with a cohort is one payload or one transaction; and refunds and moves that meet."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from orjson import loads

from onceward.live.access import Viewer
from onceward.live.query_run import QueryOutcome, run
from onceward.live.watched import Tables
from onceward.testing import assert_published, assert_sent, drain
from onceward_apps.learning import app as learning
from onceward_apps.learning import attendance, chat, jobs, waitlist
from onceward_apps.learning.cohorts import NewSession
from onceward_apps.learning.enrollments import enrol_by_hand, move
from onceward_apps.learning.store import chat as chat_rows
from onceward_apps.learning.store import curriculum, views
from tests.learning.school import School


async def fill(school: School, cohort: UUID, number: int, *, wait: bool = False) -> None:
    """Enrol people, or put them on the waitlist, with the longest addresses that are allowed."""
    await school.db.execute(
        "insert into learning.users (organization_id, email, name)"
        " select $1, repeat('x', 290) || n || '@example.org', repeat('y', 200) from generate_series(1, $2) n"
        " on conflict do nothing",
        school.organization,
        number,
    )
    columns = {
        True: ("waitlist_entries (organization_id, user_id, cohort_id)", ""),
        False: (
            "enrollments (organization_id, user_id, cohort_id, amount_paid, currency, access_expires_at)",
            ", 0, 'EUR', onceward.now() + interval '90 days'",
        ),
    }[wait]
    await school.db.execute(
        f"insert into learning.{columns[0]}"
        f" select u.organization_id, u.id, $1{columns[1]} from learning.users u limit $2",
        cohort,
        number,
    )


@pytest.mark.acceptance("triggerCohortStartedWebhook", "largeCohorts")
async def test_a_large_cohort_starts_and_everybody_is_mailed_in_batches(
    school: School, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobs, "BATCH", 250)
    cohort = await school.cohort(capacity=1000)
    await fill(school, cohort, 600)
    await school.set_status(cohort, "CONFIRMED")
    await drain(school.engine)
    assert await school.db.fetchval("select count(*) from onceward.messages where template = 'cohort-confirmed'") == 600
    await school.set_status(cohort, "IN_PROGRESS")
    [event] = await assert_published(school.engine, "cohort.started", count=1)
    assert (event.data["enrollmentCount"], len(event.data["students"])) == (600, 100)
    assert event.data["studentsUrl"] == f"https://learn.example/api/v1/learning/cohorts/{cohort}/enrollments"
    seen: list[UUID] = []
    async with school.transaction() as tx:
        while page := await curriculum.enrollments(tx, cohort, 250, seen[-1] if seen else None):
            seen += [row["id"] for row in page]
    assert len(set(seen)) == len(seen) == 600


ATTENDED = """
select count(*) filter (where attended) as present, count(*) filter (where not attended) as absent from (
    select distinct on (enrollment_id) attended from learning.attendance_observations order by enrollment_id, id desc) newest
"""


@pytest.mark.acceptance("largeCohorts", "attendanceChecklist")
async def test_a_list_of_attendance_is_recorded_in_batches_and_the_newest_entry_counts(
    school: School, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attendance, "BATCH", 250)
    soon = datetime.now(UTC) + timedelta(hours=1)
    planned = NewSession(title="First", starts_at=soon, ends_at=soon + timedelta(hours=1))
    cohort = await school.cohort(capacity=1000, starts_in_days=0, sessions=[planned])
    await fill(school, cohort, 600)
    people = await school.db.fetch(
        "select e.id, u.email from learning.enrollments e join learning.users u on u.id = e.user_id order by e.id"
    )
    session = await school.db.fetchval("select id from learning.sessions")
    await school.later(days=1)
    for absent in (people[:10], people[5:8]):
        async with school.transaction() as tx:
            addresses = [each["email"] for each in absent]
            entered = await attendance.check_off(tx, session, absent=addresses, actor="op")
            assert (entered.changed, entered.students) == (0, 600)
    await school.later(days=1, minutes=1)
    async with school.transaction() as tx:
        await attendance.correct(tx, people[300]["id"], session, attended=False, reason="left early", actor="op")
    await drain(school.engine)
    found = await school.db.fetchrow(ATTENDED)
    assert found is not None
    assert (found["present"], found["absent"]) == (600 - 3 - 1, 3 + 1)
    together = "select max(n) from (select count(*) as n from learning.attendance_observations group by xmin::text) t"
    assert await school.db.fetchval(together) <= 250
    async with school.transaction() as tx:
        again = await attendance.check_off(tx, session, absent=[each["email"] for each in people[5:8]], actor="op")
    assert again.students == 600
    await drain(school.engine)
    found = await school.db.fetchrow(ATTENDED)
    assert found is not None
    assert found["absent"] == 3, "the whole list was entered again after the correction"


PRESENT = """
insert into onceward.presence (organization_id, place, user_id, holder, status, expires_at)
select u.organization_id, 'cohort/' || $1::uuid, u.id, gen_random_uuid(), 'online', onceward.now() + interval '5 minutes'
  from learning.users u limit $2 on conflict do nothing
"""


@pytest.mark.acceptance("largeCohorts", "subscribeToOnlineUsers")
async def test_a_crowd_is_counted_and_few_are_named(school: School) -> None:
    cohort = await school.cohort()
    await fill(school, cohort, 2000)
    tables = Tables()
    async with school.db.acquire() as conn:
        await tables.load(conn)

    async def online() -> tuple[dict[str, Any], QueryOutcome]:
        query, viewer = learning.live.query("learning.online_users"), Viewer(school.organization)
        outcome = await run(school.db, tables, query, {"cohort_id": cohort, "access": ""}, viewer, timeout_s=10)
        return loads(outcome.text), outcome

    await school.db.execute(PRESENT, cohort, 50)
    few, outcome = await online()
    assert (few["count"], len(few["users"])) == (50, 50)
    assert len(outcome.dependencies) == 1, "each arrival is shown at once"
    await school.db.execute(PRESENT, cohort, 2000)
    many, outcome = await online()
    assert (many["count"], len(many["users"])) == (2000, 50)
    assert len(outcome.text) < 20_000
    assert not outcome.dependencies, "2,000 pages do not ask again for each of 2,000 arrivals"
    assert outcome.stale_in_s == 100


async def test_a_waitlist_is_closed_in_batches_and_everybody_is_mailed(
    school: School, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobs, "BATCH", 3)
    cohort = await school.cohort(capacity=2, status="CONFIRMED")
    await fill(school, cohort, 7, wait=True)
    async with school.transaction() as tx:
        assert await waitlist.promote(tx, cohort) == 2
    await school.set_status(cohort, "IN_PROGRESS")
    await drain(school.engine)
    await assert_sent(school.engine, "waitlist-closed", count=7)
    assert await school.count("waitlist_entries", "status = 'REMOVED'") == 7
    assert await school.count("waitlist_invites", "status = 'SENT'") == 0
    assert await school.free(cohort) == 2
    await school.verify()


async def test_the_home_of_a_student_carries_no_texts_and_shows_what_was_assigned(school: School) -> None:
    cohort = await school.cohort(price=0, status="IN_PROGRESS")
    async with school.transaction() as tx:
        await curriculum.add_item(tx, cohort, kind="lesson", title="Long", body="x" * 100_000)
        prep = {"kind": "lesson", "is_prep": True, "required": False}
        await curriculum.add_item(tx, cohort, **prep, title="First steps", body="Begin", resource="beginner-prep")
        await curriculum.add_item(tx, cohort, **prep, title="Hard", body="Try", resource="advanced-challenges")
        enrollment = await enrol_by_hand(tx, cohort, await school.student(), reason="scholarship", actor="op")
        await tx.execute(
            "insert into learning.supplemental_resources (enrollment_id, resource) values ($1, 'beginner-prep')",
            enrollment,
        )
        row = await views.get_enrollment(tx, enrollment)
        items = [dict(each) for each in await views.items(tx, row)]
    assert [(each["title"], each["has_text"]) for each in items] == [("First steps", True), ("Long", True)]
    assert len(str(items)) < 2000


@pytest.mark.acceptance("boundedGrowth")
async def test_reactions_are_numbers_and_a_message_takes_few_different_ones(school: School) -> None:
    cohort = await school.cohort(price=0, status="IN_PROGRESS")
    async with school.transaction() as tx:
        ada, bob = await school.student("Ada"), await school.student("Bob")
        for each in (ada, bob):
            await enrol_by_hand(tx, cohort, each, reason="x", actor="op")
        message = (await chat.post(tx, cohort, ada, "hello"))["messageId"]
        for number in range(chat.MAX_EMOJIS_OF_MESSAGE):
            await chat.react(tx, cohort, message, ada, chr(0x1F600 + number), on=True)
        with pytest.raises(Exception, match="different emoji"):
            await chat.react(tx, cohort, message, ada, "👍", on=True)
        await chat.react(tx, cohort, message, bob, chr(0x1F600), on=True)
        [shown] = await chat_rows.newest(tx, cohort, 1, reader=bob)
    assert shown["reactions"][chr(0x1F600)] == {"count": 2, "mine": True}
    assert shown["reactions"][chr(0x1F601)] == {"count": 1, "mine": False}


@pytest.mark.acceptance("featuresThatMeet")
async def test_a_refund_that_was_under_way_when_the_cohort_was_cancelled_is_still_mailed(school: School) -> None:
    cohort = await school.cohort()
    before, after = await school.enrol(cohort), await school.enrol(cohort)
    await school.refund(before, reason="ill", deliver=False)
    await school.set_status(cohort, "CANCELLED", reason="storm")
    await school.deliver()
    assert {await school.status(each) for each in (before, after)} == {"REFUNDED"}
    [mail] = await assert_sent(school.engine, "refund-confirmation", count=1)
    assert mail.key == f"enrollment:{before}:refunded"
    [mail] = await assert_sent(school.engine, "cohort-cancelled-refund", count=1)
    assert mail.key == f"enrollment:{after}:cohort-cancelled"


@pytest.mark.acceptance("featuresThatMeet")
async def test_an_invite_that_expired_keeps_its_place_for_the_next_in_the_queue(school: School) -> None:
    cohort = await school.cohort(capacity=1)
    for name in ("Ada", "Bob"):
        async with school.transaction() as tx:
            await waitlist.join(tx, cohort, await school.student(name))
    async with school.transaction() as tx:
        assert await waitlist.promote(tx, cohort) == 1
    await school.later(hours=49)  # the clean-up has not run
    with pytest.raises(Exception, match="is full"):
        await school.start(cohort, await school.student("Visitor"))
    await school.schedule("learning.invite_cleanup")
    invited = "select u.name from learning.waitlist_invites i join learning.users u on u.id = i.user_id"
    assert await school.db.fetchval(f"{invited} where i.status = 'SENT'") == "Bob"
    assert await school.free(cohort) == 0
    await school.verify()


@pytest.mark.acceptance("movedStudents")
async def test_money_of_two_currencies_is_not_summed(school: School) -> None:
    euros = await school.cohort(name="Euros")
    reais = await school.cohort(name="Reais")
    await school.db.execute("update learning.cohorts set currency = 'BRL' where id = $1", reais)
    enrollment = await school.enrol(euros)
    await school.enrol(reais)
    async with school.transaction() as tx:
        await move(tx, enrollment, reais, actor="op", reason="asked")
    async with school.transaction() as tx:
        revenue = {row["name"]: row["revenue"] for row in await views.cohorts(tx, school.organization)}
    assert revenue == {"Euros": {}, "Reais": {"EUR": 49900, "BRL": 49900}}


@pytest.mark.acceptance("movedStudents")
async def test_failed_refunds_of_students_who_were_moved_are_in_the_alert(school: School) -> None:
    old, new = await school.cohort(name="Old"), await school.cohort(name="New")
    enrollment = await school.enrol(old)
    async with school.transaction() as tx:
        await move(tx, enrollment, new, actor="op", reason="asked")
    school.stripe.books.next_refund_statuses.append("failed")
    await school.set_status(new, "CANCELLED", reason="storm")
    await school.deliver()
    await school.lapse()
    [mail] = await assert_sent(school.engine, "failed-refunds-alert", count=1)
    assert [each["enrollmentId"] for each in mail.data["failures"]] == [str(enrollment)]
