"""A cohort paid in monthly instalments: from the payment page to the last instalment, a refund, or a full cohort."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from onceward.runtime import FEATURES
from onceward.testing import assert_sent
from onceward.trust.erase import erase
from onceward_apps.learning import app as learning
from onceward_apps.learning.app import LearningSettings
from onceward_apps.learning.cohorts import NewCohort
from onceward_apps.learning.errors import InvalidRequest, NotEnrollable
from tests.learning.school import School

INSTALMENT = 17000
ERASERS = [each for erasers in FEATURES.plus(learning.features()).load("erasers") for each in erasers]


async def cohort_with_instalments(school: School, *, capacity: int = 10, count: int = 3) -> UUID:
    return await school.cohort(capacity=capacity, instalment_price=INSTALMENT, instalment_count=count)


async def subscribed(school: School, cohort: UUID, student: UUID | None = None) -> tuple[UUID, str]:
    """Start a plan, pay its first instalment. Returns the enrolment and the subscription."""
    session = await school.start(cohort, student or await school.student(), instalments=True)
    school.stripe.pay(session)
    await school.deliver()
    enrollment = await school.enrolled(session)
    assert enrollment is not None
    return enrollment, school.stripe.books.sessions[session]["subscription"]


async def plan(school: School) -> Any:
    return await school.db.fetchrow("select * from onceward.payment_plans order by created_at desc limit 1")


def at_stripe(school: School, subscription: str) -> str:
    return school.stripe.billing.subscriptions[subscription]["status"]


@pytest.mark.acceptance("processInvoicePaymentSucceeded")
async def test_the_last_instalment_ends_the_subscription_and_the_access_stays(school: School) -> None:
    enrollment, subscription = await subscribed(school, await cohort_with_instalments(school, count=2))
    end = (await school.row("enrollments", id=enrollment))["access_expires_at"]
    assert not school.stripe.billing.subscriptions[subscription]["cancel_at_period_end"]
    school.stripe.renew(subscription)
    await school.deliver()
    assert await school.payments("plan_id is not null and decision = 'accepted' and amount = $1", INSTALMENT) == 2
    assert (await school.row("enrollments", id=enrollment))["amount_paid"] == 2 * INSTALMENT
    assert school.stripe.billing.subscriptions[subscription]["cancel_at_period_end"]
    school.stripe.renew(subscription)  # it ends instead
    await school.deliver()
    assert (await plan(school))["status"] == "completed"
    after = await school.row("enrollments", id=enrollment)
    assert (after["status"], after["access_expires_at"] >= end) == ("ACTIVE", True)
    await school.verify()


async def test_an_instalment_extends_the_access_to_its_period(school: School) -> None:
    learning.use_settings(LearningSettings(access_days=0))
    enrollment, subscription = await subscribed(school, await cohort_with_instalments(school))
    school.stripe.renew(subscription)
    invoice = school.stripe.renew(subscription)
    await school.deliver()
    learning.use_settings(LearningSettings())
    until = (await school.row("enrollments", id=enrollment))["access_expires_at"].timestamp()
    assert until == invoice["lines"]["data"][0]["period"]["end"]


@pytest.mark.acceptance("processSubscriptionDeleted")
async def test_a_subscription_that_ends_too_early_ends_the_access_with_its_period(school: School) -> None:
    enrollment, subscription = await subscribed(school, await cohort_with_instalments(school))
    ended = school.stripe.end_subscription(subscription)
    await school.deliver()
    until = ended["items"]["data"][0]["current_period_end"]
    assert (await school.row("enrollments", id=enrollment))["access_expires_at"].timestamp() == until
    await school.verify()


@pytest.mark.acceptance("processSubscriptionUpdated")
async def test_a_late_instalment_is_mailed_and_after_the_grace_the_access_ends_until_it_is_paid(school: School) -> None:
    cohort = await cohort_with_instalments(school)
    enrollment, subscription = await subscribed(school, cohort, await school.student("Ada"))
    before = (await school.row("enrollments", id=enrollment))["access_expires_at"]
    school.stripe.renew(subscription, declined=True)
    await school.deliver()
    assert ((await plan(school))["status"], await school.status(enrollment)) == ("late", "ACTIVE")
    await assert_sent(school.engine, "instalment-late", to="ada@example.org", count=1)
    assert "INSTALMENT_LATE" in await school.notices()

    await school.later(days=8)
    await school.lapse()
    assert ((await plan(school))["status"], await school.status(enrollment)) == ("unpaid", "EXPIRED")
    await assert_sent(school.engine, "instalment-unpaid", to="ada@example.org", count=1)
    assert "INSTALMENT_UNPAID" in await school.notices()

    school.stripe.renew(subscription)
    await school.deliver()
    row = await school.row("enrollments", id=enrollment)
    assert (row["status"], row["amount_paid"]) == ("ACTIVE", 2 * INSTALMENT)
    assert row["access_expires_at"] >= before
    await school.verify()


async def test_a_refund_returns_every_instalment_and_ends_the_subscription(school: School) -> None:
    enrollment, subscription = await subscribed(school, await cohort_with_instalments(school))
    school.stripe.renew(subscription)
    await school.deliver()
    await school.refund(enrollment)
    assert await school.status(enrollment) == "REFUNDED"
    assert sum(refund["amount"] for refund in school.stripe.books.refunds.values()) == 2 * INSTALMENT
    assert at_stripe(school, subscription) == "canceled"
    await school.verify()


async def test_a_subscription_whose_end_was_lost_is_ended_later_and_its_instalments_go_back(school: School) -> None:
    """The job that ends it dies: the plan is asked about until the service says that it has ended."""
    enrollment, subscription = await subscribed(school, await cohort_with_instalments(school, count=2))
    await school.refund(enrollment, deliver=False)
    await school.db.execute("delete from onceward.work where task = 'payments.end_plan'")
    await school.deliver()
    assert at_stripe(school, subscription) == "active"
    for _ in range(3):
        school.stripe.renew(subscription)
    await school.deliver()
    assert await school.payments("plan_id is not null and refunded < received") == 0, "none of the four is kept"
    await school.later(days=2)
    await school.lapse()
    assert at_stripe(school, subscription) == "canceled"
    assert await school.status(enrollment) == "REFUNDED"
    await school.verify()


async def test_a_cancelled_cohort_ends_its_subscriptions(school: School) -> None:
    cohort = await cohort_with_instalments(school)
    enrollment, subscription = await subscribed(school, cohort)
    await school.set_status(cohort, "CANCELLED")
    await school.deliver()
    assert await school.status(enrollment) == "REFUNDED"
    assert at_stripe(school, subscription) == "canceled"
    await school.verify()


async def test_a_subscription_to_a_full_cohort_is_cancelled_and_its_invoice_refunded(school: School) -> None:
    cohort = await cohort_with_instalments(school, capacity=1)
    session = await school.start(cohort, await school.student(), instalments=True)
    await school.lose_holds()
    await school.enrol(cohort)
    school.stripe.pay(session)
    await school.deliver()
    assert at_stripe(school, school.stripe.books.sessions[session]["subscription"]) == "canceled"
    [refund] = school.stripe.books.refunds.values()
    assert refund["amount"] == INSTALMENT
    assert (await school.payment(session))["decided_reason"] == "cohort_full"
    assert await school.count("waitlist_entries", "status = 'ACTIVE'") == 1
    await school.verify()


@pytest.mark.parametrize("first", ["checkout.session.completed", "invoice.paid"])
async def test_a_first_instalment_enrols_whichever_event_comes_first(school: School, first: str) -> None:
    cohort = await cohort_with_instalments(school)
    session = await school.start(cohort, await school.student(), instalments=True)
    school.stripe.pay(session)
    await school.deliver(first)
    await school.lapse()  # days may pass
    await school.deliver()
    assert await school.enrolled(session) is not None
    assert school.stripe.books.refunds == {}
    await school.verify()


async def test_an_erased_student_pays_no_further_instalment(school: School) -> None:
    cohort = await cohort_with_instalments(school)
    _, subscription = await subscribed(school, cohort, await school.student("Ada"))
    await erase(school.db, "ada@example.org", ERASERS, organization=school.organization, actor="test")
    await school.lapse()
    assert at_stripe(school, subscription) == "canceled"


async def test_changing_the_way_to_pay_does_not_hold_a_second_place(school: School) -> None:
    cohort, student = await cohort_with_instalments(school, capacity=1), await school.student()
    first = await school.start(cohort, student)
    second = await school.start(cohort, student, instalments=True)
    assert first != second
    assert await school.start(cohort, student, instalments=True) == second
    assert await school.free(cohort) == 0
    assert school.stripe.books.sessions[second]["mode"] == "subscription"


async def test_instalments_that_are_not_offered_or_not_complete_are_refused(school: School) -> None:
    with pytest.raises(NotEnrollable):
        await school.start(await school.cohort(), await school.student(), instalments=True)
    now: Any = await school.db.fetchval("select now()")
    end: Any = await school.db.fetchval("select now() + interval '1 day'")
    wrong: list[dict[str, Any]] = [{"instalment_count": 3}, {"instalment_price": 5}]
    wrong.append({"instalment_price": 5, "instalment_count": 1})
    for changes in wrong:
        with pytest.raises(InvalidRequest):
            NewCohort(name="x", starts_at=now, ends_at=end, max_capacity=1, price=1, currency="EUR", **changes)
