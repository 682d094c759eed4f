"""Work that is killed at a gate, rescued and finished comes out as if nothing had happened.

The short tests crash at the first occurrence of every gate; the slow ones at each occurrence.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest

from onceward.schedules import Scheduler, run_now
from onceward.testing import Crash, drain, give_back
from onceward.work import gate
from onceward_apps.learning import app as learning
from onceward_apps.learning import checkout, waitlist
from onceward_apps.learning.app import LearningSettings
from tests.learning.school import School, zone_of_morning
from tests.learning.test_refunds import intent, refund_at_stripe

Prepare = Callable[[School], Awaitable[UUID]]
"""Prepare the work of one scenario, which `drain` then runs. Returns the cohort."""


class Counter:
    """Crashes at the nth gate; without n it only counts them."""

    def __init__(self, at: int | None) -> None:
        self.passed: list[str] = []
        self.at = at

    def __call__(self, name: str) -> None:
        self.passed.append(name)
        if len(self.passed) == self.at:
            raise Crash(name)


@pytest.fixture(autouse=True)
def fast() -> Any:
    learning.use_settings(LearningSettings(refunds_per_second=100))
    yield
    learning.use_settings(LearningSettings())


async def run(school: School, prepare: Prepare, at: int | None) -> tuple[list[str], dict[str, Any]]:
    """Prepare, run with a crash at the nth gate, rescue and finish. Returns the gates and what was left behind."""
    before = await totals(school)
    cohort = await prepare(school)
    counter = Counter(at)
    gate.hook = counter
    try:
        await drain(school.engine)
    except* Crash:  # a schedule does its items in a task group
        pass
    finally:
        gate.hook = None
    await give_back(school.engine)
    await school.deliver()
    after = await totals(school)
    left = {name: after[name] - before.get(name, 0) for name in after if after[name] != before.get(name, 0)}
    left["free places"] = await school.free(cohort)
    left["unfinished"] = await school.db.fetchval(
        "select count(*) from onceward.work"
        " where kind <> 'message' and queue <> 'unhandled' and sort_at < now() and dead_reason is null"
    )
    await school.verify()
    return counter.passed, left


async def totals(school: School) -> dict[str, int]:
    rows = await school.db.fetch(
        """
        select 'enrolment ' || status as name, count(*) from learning.enrollments group by 1
        union all select concat_ws(' ', 'payment', subject_type, status, decision, decided_reason), count(*)
                    from onceward.payments group by 1
        union all select 'refund ' || status, count(*) from onceward.payment_refunds group by 1
        union all select 'entry ' || status, count(*) from learning.waitlist_entries group by 1
        union all select 'invite ' || status, count(*) from learning.waitlist_invites group by 1
        union all select 'extension ' || status, count(*) from learning.access_extensions group by 1
        union all select concat_ws(' ', 'plan', status, ended_at is not null), count(*) from onceward.payment_plans group by 1
        union all select 'dispute ' || status, count(*) from onceward.payment_disputes group by 1
        union all select 'journal ' || kind, count(*) from onceward.payment_journals group by 1
        union all select 'checkout ' || status, count(*) from learning.checkouts group by 1
        union all select 'booking ' || status, count(*) from learning.bookings group by 1
        union all select 'observation ' || source || attended, count(*) from learning.attendance_observations group by 1
        union all select 'response', count(*) from learning.survey_responses group by 1
        union all select 'resource', count(*) from learning.supplemental_resources group by 1
        union all select 'certificate ' || (document is not null), count(*) from learning.certificates group by 1
        union all select 'day', count(*) from learning.daily_metrics group by 1
        union all select 'file', count(*) from learning.submission_files
        union all select 'seat ' || (enrollment_id is null), count(*) from learning.seats group by 1
        union all select 'discount ' || c.state, count(*) from onceward.capacity_claims c
                    join onceward.capacity_pools p on p.id = c.pool_id and p.key like 'discount:%' group by 1
        union all select 'page view', count(*) from learning.page_views group by 1
        union all select 'broadcast ' || topic, count(*) from onceward.topic_messages where topic not like '%/%' group by 1
        union all select 'cohort ' || status, count(*) from learning.cohorts group by 1
        union all select 'mail ' || template, count(*) from onceward.messages group by 1
        union all select 'event ' || type, count(*) from onceward.published group by 1
        union all select 'activity ' || kind, count(*) from learning.activity_log group by 1
        union all select 'notice ' || type, count(*) from onceward.notices group by 1
        union all select 'dead ' || coalesce(dead_reason, ''), count(*) from onceward.work where dead_reason is not null group by 1
        """
    )
    return {row["name"]: row["count"] for row in rows} | {"refunds at Stripe": len(school.stripe.books.refunds)}


# -- scenarios ---------------------------------------------------------------------------------------------------------


async def paid_checkout(school: School) -> UUID:
    cohort = await school.cohort(capacity=2)
    school.stripe.pay(await school.start(cohort, await school.student()))
    await school.deliver("checkout.session.completed", run=False)
    return cohort


async def paid_for_a_full_cohort(school: School) -> UUID:
    cohort = await school.cohort(capacity=1)
    session = await school.start(cohort, await school.student())
    await school.lose_holds()
    await school.enrol(cohort)
    school.stripe.pay(session)
    await school.deliver("checkout.session.completed", run=False)
    return cohort


async def refunded_with_a_waitlist(school: School) -> UUID:
    cohort = await school.cohort(capacity=1)
    enrollment = await school.enrol(cohort)
    async with school.transaction() as tx:
        await waitlist.join(tx, cohort, (await school.student()))
    refund_at_stripe(school, await intent(school, enrollment))
    await school.deliver("refund.created", run=False)
    return cohort


async def cancelled(school: School) -> UUID:
    cohort = await school.cohort(capacity=3)
    for _ in range(2):
        await school.enrol(cohort)
    await school.set_status(cohort, "CANCELLED", reason="ill")
    return cohort


async def bought_extension(school: School) -> UUID:
    cohort = await school.cohort(extension_price=9900)
    enrollment = await school.enrol(cohort)
    await school.db.execute("update learning.enrollments set access_expires_at = now() where id = $1", enrollment)
    started = await checkout.start_extension(school.engine, school.organization, enrollment_id=enrollment)
    school.stripe.pay(started.url.rsplit("/", 1)[-1])
    await school.deliver("checkout.session.completed", run=False)
    return cohort


def scheduled(name: str, prepare: Prepare) -> Prepare:
    async def arranged(school: School) -> UUID:
        cohort = await prepare(school)
        await Scheduler(school.db, learning.schedules.values(), waker=school.engine.waker).register()
        async with school.db.transaction(role="engine") as tx:
            await run_now(tx, learning.schedules[name], by="test")
        return cohort

    arranged.__name__ = name
    return arranged


async def ended_access(school: School) -> UUID:
    await school.db.execute("update learning.enrollments set access_expires_at = now() + interval '99 days'")
    cohort = await school.cohort()
    last_second = "date_trunc('day', now(), 'UTC') + interval '1 day' - interval '1 second'"
    for end in ("now() - interval '1 hour'", last_second):
        enrollment = await school.enrol(cohort)
        await school.db.execute(f"update learning.enrollments set access_expires_at = {end} where id = $1", enrollment)
    return cohort


async def expired_invites(school: School) -> UUID:
    cohort = await school.cohort(capacity=1)
    for _ in range(2):
        student = await school.student()
        async with school.transaction() as tx:
            await waitlist.join(tx, cohort, student)
    async with school.transaction() as tx:
        await waitlist.promote(tx, cohort)
    await school.db.execute("update learning.waitlist_invites set expires_at = now() where cohort_id = $1", cohort)
    return cohort


async def waiting_people(school: School) -> UUID:
    cohort = await school.cohort(capacity=1)
    student = await school.student()
    async with school.transaction() as tx:
        await waitlist.join(tx, cohort, student)
    return cohort


async def starting_cohort(school: School) -> UUID:
    cohort = await school.cohort(starts_in_days=1, status="CONFIRMED")
    await school.enrol(cohort)
    await school.db.execute("update learning.cohorts set starts_at = now() where id = $1", cohort)
    return cohort


async def soon_starting_cohort(school: School) -> UUID:
    cohort = await school.cohort(starts_in_days=3, status="CONFIRMED", time_zone=zone_of_morning(datetime.now(UTC)))
    await school.enrol(cohort)
    return cohort


SCENARIOS: list[Prepare] = [
    paid_checkout,
    paid_for_a_full_cohort,
    refunded_with_a_waitlist,
    cancelled,
    bought_extension,
    scheduled("learning.access_expiry", ended_access),
    scheduled("learning.invite_cleanup", expired_invites),
    scheduled("learning.waitlist_promotion", waiting_people),
    scheduled("learning.cohort_clock", starting_cohort),
    scheduled("learning.pre_cohort_mails", soon_starting_cohort),
]


def named(prepare: Prepare) -> str:
    return getattr(prepare, "__name__", "scenario")


async def crash_at(school: School, prepare: Prepare, *, every: bool) -> None:
    await run(school, prepare, None)  # the first run also does work that only the first of a database does
    gates, expected = await run(school, prepare, None)
    assert gates, "the scenario does nothing"
    for number, name in enumerate(gates, start=1):
        if every or gates.index(name) == number - 1:
            _, left = await run(school, prepare, number)
            assert left == expected, f"a crash at gate {number} ({name}) changed the result"


@pytest.mark.parametrize("prepare", [paid_checkout, cancelled, SCENARIOS[5]], ids=named)
async def test_a_crash_at_each_kind_of_gate_changes_nothing(school: School, prepare: Prepare) -> None:
    await crash_at(school, prepare, every=False)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("prepare", SCENARIOS, ids=named)
async def test_a_crash_at_every_gate_changes_nothing(school: School, prepare: Prepare) -> None:
    await crash_at(school, prepare, every=True)


async def test_the_scenarios_do_what_they_say(school: School) -> None:
    """So that a crash test cannot pass because nothing happened."""
    expected = {
        "paid_checkout": "enrolment ACTIVE",
        "paid_for_a_full_cohort": "payment enrolment refunded returned cohort_full",
        "refunded_with_a_waitlist": "invite SENT",
        "cancelled": "mail cohort-cancelled-refund",
        "bought_extension": "extension APPLIED",
        "learning.access_expiry": "enrolment EXPIRED",
        "learning.invite_cleanup": "invite EXPIRED",
        "learning.waitlist_promotion": "entry INVITED",
        "learning.cohort_clock": "event cohort.started",
        "learning.pre_cohort_mails": "mail cohort-starting-7days",
    }
    assert {named(prepare) for prepare in SCENARIOS} == set(expected)
    for prepare in SCENARIOS:
        _, left = await run(school, prepare, None)
        assert left.get(expected[named(prepare)], 0) >= 1, (named(prepare), left)
        assert left["unfinished"] == 0
