"""Disputes: the enrolment stays while one is open, ends if it is lost, and goes on if it is won."""

from __future__ import annotations

import pytest

from onceward.testing import assert_published, assert_sent
from onceward_apps.learning import checkout, waitlist
from onceward_apps.learning.refund_requests import refund_enrollment
from tests.learning.school import PRICE, School
from tests.learning.test_refunds import intent, refund_at_stripe


async def test_an_open_dispute_is_noted_and_alerted_and_the_enrolment_stays(school: School) -> None:
    enrollment = await school.enrol(await school.cohort())
    school.stripe.open_dispute(await intent(school, enrollment))
    await school.deliver()
    assert (await school.row("enrollments", id=enrollment))["disputed_at"] is not None
    assert (await school.row("disputes", enrollment_id=enrollment))["status"] == "open"
    assert await school.notices() == ["PAYMENT_DISPUTED"]
    assert await school.status(enrollment) == "ACTIVE"
    await school.verify()


async def test_a_won_dispute_changes_nothing(school: School) -> None:
    enrollment = await school.enrol(await school.cohort())
    dispute = school.stripe.open_dispute(await intent(school, enrollment))
    await school.deliver()
    school.stripe.close_dispute(dispute["id"], won=True)
    await school.deliver()
    row = await school.row("enrollments", id=enrollment)
    assert (row["status"], row["disputed_at"]) == ("ACTIVE", None)
    assert await school.notices() == ["PAYMENT_DISPUTED", "DISPUTE_WON"]
    assert (await school.row("payments", enrollment_id=enrollment))["charged_back_amount"] == 0
    await school.verify()


async def test_a_lost_dispute_ends_the_enrolment_and_its_place_is_offered(school: School) -> None:
    cohort = await school.cohort(capacity=1)
    enrollment = await school.enrol(cohort)
    async with school.transaction() as tx:
        await waitlist.join(tx, cohort, (await school.student()))
    dispute = school.stripe.open_dispute(await intent(school, enrollment))
    school.stripe.close_dispute(dispute["id"], won=False)
    # Stripe does not keep the order: the decision arrives first, and the opening after it changes nothing.
    await school.deliver("charge.dispute.closed")
    await school.deliver()
    row = await school.row("enrollments", id=enrollment)
    assert (row["status"], row["refund_amount"], row["refund_reason"]) == ("REFUNDED", PRICE, "dispute_lost")
    payment = await school.row("payments", enrollment_id=enrollment)
    assert (payment["charged_back_amount"], payment["refunded_amount"]) == (PRICE, 0)
    assert await school.notices() == ["DISPUTE_LOST"]
    assert await school.count("waitlist_invites", "status = 'SENT'") == 1
    assert len(await assert_published(school.engine, "enrollment.refunded")) == 1
    await assert_sent(school.engine, "dispute-lost", count=1)
    assert len(school.stripe.books.refunds) == 0
    await school.verify()


async def test_only_the_rest_of_a_partly_refunded_payment_is_charged_back(school: School) -> None:
    enrollment = await school.enrol(await school.cohort())
    payment = await intent(school, enrollment)
    refund_at_stripe(school, payment, 10000)
    dispute = school.stripe.open_dispute(payment, amount=PRICE)
    school.stripe.close_dispute(dispute["id"], won=False)
    await school.deliver()
    row = await school.row("payments", payment_intent_id=payment)
    assert (row["refunded_amount"], row["charged_back_amount"]) == (10000, PRICE - 10000)
    assert (await school.row("enrollments", id=enrollment))["refund_amount"] == PRICE
    await school.verify()


async def test_a_refund_refused_during_a_dispute_is_requested_again_if_it_is_won(school: School) -> None:
    enrollment = await school.enrol(await school.cohort())
    dispute = school.stripe.open_dispute(await intent(school, enrollment))
    async with school.transaction() as tx:
        await refund_enrollment(tx, enrollment, reason="x", actor="ops")
    await school.deliver()
    assert await school.status(enrollment) == "REFUND_PENDING"
    school.stripe.close_dispute(dispute["id"], won=True)
    await school.deliver()
    assert await school.status(enrollment) == "REFUNDED"
    assert len(school.stripe.books.refunds) == 1
    await school.verify()


async def test_a_refund_refused_during_a_dispute_is_not_paid_twice_if_it_is_lost(school: School) -> None:
    enrollment = await school.enrol(await school.cohort())
    dispute = school.stripe.open_dispute(await intent(school, enrollment))
    async with school.transaction() as tx:
        await refund_enrollment(tx, enrollment, reason="x", actor="ops")
    await school.deliver()
    school.stripe.close_dispute(dispute["id"], won=False)
    await school.deliver()
    assert await school.status(enrollment) == "REFUNDED"
    assert len(school.stripe.books.refunds) == 0
    await school.verify()


@pytest.mark.slow
async def test_a_lost_dispute_about_an_extension_revokes_only_the_extension(school: School) -> None:
    enrollment = await school.enrol(await school.cohort(extension_price=9900))
    started = await checkout.start_extension(school.engine, school.organization, enrollment_id=enrollment)
    session = started.url.rsplit("/", 1)[-1]
    school.stripe.pay(session)
    await school.deliver()
    dispute = school.stripe.open_dispute(school.stripe.books.sessions[session]["payment_intent"])
    school.stripe.close_dispute(dispute["id"], won=False)
    await school.deliver()
    assert await school.status(enrollment) == "ACTIVE"
    assert (await school.row("access_extensions", enrollment_id=enrollment))["status"] == "REVOKED"
    await school.verify()


async def test_a_refund_that_arrives_before_its_extension_is_applied_to_it(school: School) -> None:
    enrollment = await school.enrol(await school.cohort(extension_price=9900))
    started = await checkout.start_extension(school.engine, school.organization, enrollment_id=enrollment)
    session = started.url.rsplit("/", 1)[-1]
    school.stripe.pay(session)
    refund_at_stripe(school, school.stripe.books.sessions[session]["payment_intent"])
    await school.deliver("charge.refunded")
    await school.deliver()
    payment = await school.row("payments", stripe_session_id=session)
    assert payment["refunded_amount"] == 9900
    assert (await school.row("access_extensions", enrollment_id=enrollment))["status"] == "REVOKED"
    await school.verify()
