"""A cohort paid in monthly instalments: from the payment page to the last instalment, a refund, or a full cohort."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from onceward.testing import drain
from onceward_apps.learning.cohorts import NewCohort
from onceward_apps.learning.errors import InvalidRequest, NotEnrollable
from onceward_apps.learning.refund_requests import refund_enrollment
from tests.learning.school import School
from tests.learning.test_refunds import refund_at_stripe

INSTALMENT = 17000


async def cohort_with_instalments(school: School, *, capacity: int = 10, count: int = 3) -> UUID:
    return await school.cohort(capacity=capacity, instalment_price=INSTALMENT, instalment_count=count)


async def subscribed(school: School, cohort: UUID) -> tuple[UUID, str]:
    """Start a subscription, pay its first instalment. Returns the enrolment and the subscription."""
    session = await school.start(cohort, await school.student(), instalments=True)
    school.stripe.pay(session)
    await settle(school)
    row = await school.row("enrollments", stripe_session_id=session)
    return row["id"], school.stripe.books.sessions[session]["subscription"]


async def settle(school: School) -> None:
    """Deliver everything. An invoice that came before the enrolment waits for some seconds: they pass here."""
    await school.deliver()
    await school.db.execute("update onceward.work set sort_at = now() where kind <> 'message' and dead_reason is null")
    await drain(school.engine)
    await school.deliver()


async def test_the_last_instalment_ends_the_subscription_and_the_access_stays(school: School) -> None:
    enrollment, subscription = await subscribed(school, await cohort_with_instalments(school, count=2))
    end = (await school.row("enrollments", id=enrollment))["access_expires_at"]
    assert await school.count("payments", "purpose = 'instalment' and amount = $1", INSTALMENT) == 1
    assert not school.stripe.billing.subscriptions[subscription]["cancel_at_period_end"]
    school.stripe.renew(subscription)
    await settle(school)
    assert await school.count("payments", "purpose = 'instalment'") == await school.count("instalments") == 2
    assert (await school.row("enrollments", id=enrollment))["amount_paid"] == 2 * INSTALMENT
    assert school.stripe.billing.subscriptions[subscription]["cancel_at_period_end"]
    school.stripe.renew(subscription)  # it ends instead
    await settle(school)
    row = await school.row("subscriptions", stripe_subscription_id=subscription)
    assert row["ended_at"] is not None
    after = await school.row("enrollments", id=enrollment)
    assert (after["status"], after["access_expires_at"] >= end) == ("ACTIVE", True)
    await school.verify()


@pytest.mark.slow
async def test_a_subscription_that_ends_too_early_ends_the_access_with_its_period(school: School) -> None:
    enrollment, subscription = await subscribed(school, await cohort_with_instalments(school))
    ended = school.stripe.end_subscription(subscription)
    await settle(school)
    until = ended["items"]["data"][0]["current_period_end"]
    assert (await school.row("enrollments", id=enrollment))["access_expires_at"].timestamp() == until
    await school.verify()


async def test_a_refund_returns_every_instalment_and_ends_the_subscription(school: School) -> None:
    enrollment, subscription = await subscribed(school, await cohort_with_instalments(school))
    school.stripe.renew(subscription)
    await settle(school)
    async with school.transaction() as tx:
        await refund_enrollment(tx, enrollment, reason="x", actor="ops")
    await settle(school)
    assert await school.status(enrollment) == "REFUNDED"
    assert sum(refund["amount"] for refund in school.stripe.books.refunds.values()) == 2 * INSTALMENT
    assert school.stripe.billing.subscriptions[subscription]["status"] == "canceled"
    await school.verify()


async def test_a_cancelled_cohort_ends_its_subscriptions(school: School) -> None:
    cohort = await cohort_with_instalments(school)
    enrollment, subscription = await subscribed(school, cohort)
    await school.set_status(cohort, "CANCELLED")
    await settle(school)
    assert await school.status(enrollment) == "REFUNDED"
    assert school.stripe.billing.subscriptions[subscription]["status"] == "canceled"
    await school.verify()


async def test_a_subscription_to_a_full_cohort_is_cancelled_and_its_invoice_refunded(school: School) -> None:
    cohort = await cohort_with_instalments(school, capacity=1)
    session = await school.start(cohort, await school.student(), instalments=True)
    await school.db.execute("update onceward.capacity_claims set expires_at = now() - interval '1 second'")
    await school.enrol(cohort)
    school.stripe.pay(session)
    for _ in range(5):
        await settle(school)
    subscription = school.stripe.books.sessions[session]["subscription"]
    assert school.stripe.billing.subscriptions[subscription]["status"] == "canceled"
    [refund] = school.stripe.books.refunds.values()
    assert refund["amount"] == INSTALMENT
    assert await school.count("payments", "reason = 'enrollment_not_found' and refunded_amount = amount") == 1
    await school.verify()


async def test_an_invoice_without_its_payment_is_read_from_the_service(school: School) -> None:
    enrollment, subscription = await subscribed(school, await cohort_with_instalments(school))
    school.stripe.renew(subscription)
    [event] = school.events("invoice.payment_succeeded")
    del event["data"]["object"]["payments"]  # as Stripe sends it
    await settle(school)
    assert await school.result(event["id"]) == {"status": "ASKING_FOR_PAYMENT"}
    assert await school.count("payments", "purpose = 'instalment' and enrollment_id = $1", enrollment) == 2
    await school.verify()


@pytest.mark.slow
async def test_a_refund_that_arrives_before_its_instalment_is_applied_to_it(school: School) -> None:
    enrollment, subscription = await subscribed(school, await cohort_with_instalments(school))
    invoice = school.stripe.renew(subscription)
    payment = invoice["payments"]["data"][0]["payment"]["payment_intent"]
    school.stripe.books.charges[school.stripe.books.intents[payment]["latest_charge"]]["metadata"] = {"app": "learning"}
    refund_at_stripe(school, payment)
    [event] = school.events("charge.refunded")
    event["data"]["object"]["metadata"] |= {"enrollmentId": str(enrollment)}
    await school.deliver("charge.refunded")
    await settle(school)
    assert (await school.row("payments", payment_intent_id=payment))["refunded_amount"] == INSTALMENT
    assert (await school.row("enrollments", id=enrollment))["partial_refund"] == INSTALMENT
    await school.verify()


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
