"""The schedules: access expiry, mails before the start, the clock of cohorts. A missed day costs nothing."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from onceward.db import Database
from onceward.testing import FrozenClock, assert_published, assert_sent
from onceward_apps.learning.enrollments import move
from tests.learning.school import School

START = datetime(2026, 3, 1, 12, tzinfo=UTC)


async def set_access_end(school: School, enrollment: UUID, end: datetime) -> None:
    await school.db.execute("update learning.enrollments set access_expires_at = $2 where id = $1", enrollment, end)


async def buy_extension(school: School, enrollment: UUID, until: datetime) -> None:
    await school.db.execute(
        "insert into learning.access_extensions (organization_id, enrollment_id, extends_until, currency)"
        " values ($1, $2, $3, 'EUR')",
        school.organization,
        enrollment,
        until,
    )


@pytest.mark.acceptance("checkAccessExpiry")
async def test_access_expires_after_missed_days_is_extended_or_reminded_once(school: School, db: Database) -> None:
    async with FrozenClock(db, START) as clock:
        cohort = await school.cohort(extension_price=4900)
        past, today, tomorrow, extended, too_short = [await school.enrol(cohort) for _ in range(5)]
        await clock.move_to(datetime(2026, 6, 10, 2, tzinfo=UTC))
        await set_access_end(school, past, datetime(2026, 6, 5, 8, tzinfo=UTC))
        await set_access_end(school, today, datetime(2026, 6, 10, 18, tzinfo=UTC))
        await set_access_end(school, tomorrow, datetime(2026, 6, 11, 3, 0, 1, tzinfo=UTC))
        await set_access_end(school, extended, datetime(2026, 6, 9, tzinfo=UTC))
        await buy_extension(school, extended, datetime(2026, 7, 9, tzinfo=UTC))
        await set_access_end(school, too_short, datetime(2026, 6, 1, tzinfo=UTC))
        await buy_extension(school, too_short, datetime(2026, 6, 8, tzinfo=UTC))

        await school.schedule("learning.access_expiry")
        await school.schedule("learning.access_expiry")
        states = [await school.status(each) for each in (past, today, tomorrow, extended, too_short)]
        assert states == ["EXPIRED", "ACTIVE", "ACTIVE", "ACTIVE", "EXPIRED"]
        row = await school.row("enrollments", id=extended)
        assert row["access_expires_at"] == datetime(2026, 7, 9, tzinfo=UTC)
        assert row["access_extension_applied"]
        assert (await school.row("access_extensions", enrollment_id=extended))["status"] == "APPLIED"
        [mail] = await assert_sent(school.engine, "access-expiring-today", count=1)
        assert mail.data["extendAccessUrl"].startswith(f"https://learn.example/learn/extensions/{today}.")
        changes = [event.data["change"] for event in await assert_published(school.engine, "enrollment.updated")]
        assert sorted(changes) == ["access_extended", "expired", "expired"]

        await set_access_end(school, today, datetime(2026, 6, 12, 5, tzinfo=UTC))
        await clock.move_to(datetime(2026, 6, 12, 2, tzinfo=UTC))
        await school.schedule("learning.access_expiry")
        await assert_sent(school.engine, "access-expiring-today", count=2)  # a new date is reminded again
        await school.verify()


@pytest.mark.acceptance("sendPreCohortEmails")
async def test_mails_before_the_start_survive_a_missed_day_and_are_sent_once(school: School, db: Database) -> None:
    async with FrozenClock(db, START) as clock:
        cohort = await school.cohort(starts_in_days=10, status="CONFIRMED", zoom_link="https://zoom.example/1")
        open_cohort = await school.cohort(starts_in_days=10, name="Open")
        await school.enrol(cohort)
        await school.enrol(open_cohort)
        await school.schedule("learning.pre_cohort_mails")
        assert not [t for t, _ in await school.mails() if t.startswith("cohort-starting")]

        await clock.advance(days=5)  # the run seven days before the start was missed
        for _ in range(2):
            await school.schedule("learning.pre_cohort_mails")
        [mail] = await assert_sent(school.engine, "cohort-starting-7days", count=1)
        assert mail.data["intakeComplete"] is False
        assert mail.data["calBookingUrl"] is None

        await clock.advance(days=4, hours=4)
        late = await school.student("Late")
        await school.enrol(cohort, late)
        for _ in range(2):
            await school.schedule("learning.pre_cohort_mails")
        await assert_sent(school.engine, "cohort-starting-7days", count=1)
        mails = await assert_sent(school.engine, "cohort-starting-tomorrow", count=2)
        assert {mail.data["zoomLink"] for mail in mails} == {"https://zoom.example/1"}


@pytest.mark.acceptance("updateCohortStatus", "triggerCohortStartedWebhook")
async def test_the_clock_starts_and_ends_cohorts_and_alerts_once_about_an_open_one(
    school: School, db: Database
) -> None:
    async with FrozenClock(db, START) as clock:
        cohort = await school.cohort(starts_in_days=2, status="CONFIRMED")
        unconfirmed = await school.cohort(starts_in_days=2, name="Unconfirmed")
        await school.enrol(cohort, await school.student("Ada"))
        await school.schedule("learning.cohort_clock")
        assert (await school.row("cohorts", id=cohort))["status"] == "CONFIRMED"

        await clock.advance(days=2)
        for _ in range(2):
            await school.schedule("learning.cohort_clock")
        row = await school.row("cohorts", id=cohort)
        assert row["status"] == "IN_PROGRESS"
        assert row["content_unlocked_at"] is not None
        [event] = await assert_published(school.engine, "cohort.started", count=1)
        assert [student["name"] for student in event.data["students"]] == ["Ada"]
        assert (await school.row("cohorts", id=unconfirmed))["status"] == "OPEN"
        assert (await school.notices()).count("COHORT_NOT_STARTED") == 1

        await clock.advance(days=40)
        await school.schedule("learning.cohort_clock")
        assert (await school.row("cohorts", id=cohort))["status"] == "COMPLETED"
        await assert_published(school.engine, "cohort.completed", count=1)
        history = await db.fetch(
            "select to_status from learning.cohort_status_history where cohort_id = $1 order by id", cohort
        )
        assert [row["to_status"] for row in history] == ["OPEN", "CONFIRMED", "IN_PROGRESS", "COMPLETED"]
        await school.verify()


async def test_confirming_mails_every_student_once(school: School) -> None:
    cohort = await school.cohort()
    for _ in range(3):
        await school.enrol(cohort)
    await school.set_status(cohort, "CONFIRMED")
    await school.deliver()
    await assert_sent(school.engine, "cohort-confirmed", count=3)


async def test_a_checkout_whose_webhook_is_lost_gives_its_place_back(school: School) -> None:
    cohort = await school.cohort(capacity=1)
    await school.start(cohort, await school.student())
    await school.later(hours=1)
    await school.lapse()
    assert await school.count("checkouts", "status = 'ended'") == 1
    assert await school.free(cohort) == 1


@pytest.mark.acceptance("boundedGrowth")
async def test_links_sessions_page_views_and_crm_logs_are_deleted_after_30_days(school: School, db: Database) -> None:
    user = await school.student()
    old, young = timedelta(days=31), timedelta(days=29)
    async with school.transaction() as tx:
        for age in (old, young):
            token = bytes([age.days]) * 32
            for table in ("sign_in_links", "student_sessions"):
                await tx.execute(
                    f"insert into learning.{table} (token_hash, user_id, expires_at) values ($1, $2, onceward.now() - $3::interval)",
                    token,
                    user,
                    age,
                )
            await tx.execute(
                "insert into learning.page_views (visitor, path, viewed_at) values ('v', '/', onceward.now() - $1::interval)",
                age,
            )
            await tx.execute(
                "insert into learning.crm_sync_log (success, synced_at) values (true, onceward.now() - $1::interval)",
                age,
            )
    await school.schedule("learning.old_records")
    for table, column in (
        ("sign_in_links", "expires_at"),
        ("student_sessions", "expires_at"),
        ("page_views", "viewed_at"),
        ("crm_sync_log", "synced_at"),
    ):
        left = await db.fetch(f"select extract(day from onceward.now() - {column})::int as days from learning.{table}")
        assert [row["days"] for row in left] == [29], table


@pytest.mark.acceptance("localHours")
async def test_access_that_ends_before_the_next_check_is_reminded_and_extended_without_a_gap(
    school: School, db: Database
) -> None:
    async with FrozenClock(db, START) as clock:
        cohort = await school.cohort()
        night, extended = await school.enrol(cohort), await school.enrol(cohort)
        await clock.move_to(datetime(2026, 6, 10, 2, tzinfo=UTC))
        end = datetime(2026, 6, 11, 1, 30, tzinfo=UTC)  # before the check of the next day
        await set_access_end(school, night, end)
        await set_access_end(school, extended, end)
        await buy_extension(school, extended, datetime(2026, 7, 11, tzinfo=UTC))
        await school.schedule("learning.access_expiry")
        [mail] = await assert_sent(school.engine, "access-expiring-today", count=1)
        assert mail.data["extendAccessUrl"] is None, "the course sells no extension"
        assert (await school.row("enrollments", id=extended))["access_expires_at"] == datetime(2026, 7, 11, tzinfo=UTC)


@pytest.mark.acceptance("localHours")
async def test_the_mail_before_the_start_waits_for_the_morning_in_the_zone_of_the_cohort(
    school: School, db: Database
) -> None:
    async with FrozenClock(db, START) as clock:
        cohort = await school.cohort(starts_in_days=3.4, status="CONFIRMED", time_zone="America/Los_Angeles")
        await school.enrol(cohort)
        start = (await school.row("cohorts", id=cohort))["starts_at"]
        assert start == datetime(2026, 3, 4, 21, 36, tzinfo=UTC)  # 13:36 in Los Angeles
        await clock.move_to(datetime(2026, 3, 3, 16, tzinfo=UTC))  # 08:00
        await school.schedule("learning.pre_cohort_mails")
        assert not [each for each, _ in await school.mails() if each == "cohort-starting-tomorrow"]
        await clock.move_to(datetime(2026, 3, 3, 17, tzinfo=UTC))
        for _ in range(2):
            await school.schedule("learning.pre_cohort_mails")
        await assert_sent(school.engine, "cohort-starting-tomorrow", count=1)


@pytest.mark.acceptance("movedStudents")
async def test_a_student_who_was_moved_is_notified_and_reminded_of_the_new_cohort(school: School, db: Database) -> None:
    async with FrozenClock(db, START):
        old = await school.cohort(starts_in_days=3, status="CONFIRMED", name="Old")
        new = await school.cohort(starts_in_days=5, name="New")
        enrollment = await school.enrol(old)
        await school.schedule("learning.pre_cohort_mails")
        async with school.transaction() as tx:
            await move(tx, enrollment, new, actor="op", reason="asked")
        await school.set_status(new, "CONFIRMED")
        await school.deliver()
        await school.schedule("learning.pre_cohort_mails")
        reminders = await assert_sent(school.engine, "cohort-starting-7days", count=2)
        assert [mail.data["cohortName"] for mail in reminders] == ["Old", "New"]
        [moved] = await assert_sent(school.engine, "enrollment-moved", count=1)
        assert (moved.data["oldCohortName"], moved.data["cohortName"]) == ("Old", "New")
        confirmed = await assert_sent(school.engine, "cohort-confirmed", count=2)
        assert [mail.data["cohortName"] for mail in confirmed] == ["Old", "New"]
