"""Disputes: the enrolment stays while one is open, ends if it is lost, and goes on if it is won."""

from __future__ import annotations

import pytest

from onceward.testing import assert_published, assert_sent
from onceward_apps.learning import checkout, waitlist
from tests.learning.school import PRICE, School
from tests.learning.test_refunds import intent, refund_at_stripe


async def test_an_open_dispute_is_noted_and_alerted_and_the_enrolment_stays(school: School) -> None:
    enrollment = await school.enrol(await school.cohort())
    school.stripe.open_dispute(await intent(school, enrollment))
    await school.deliver()
    assert (await school.row("enrollments", id=enrollment))["disputed_at"] is not None
    assert await school.notices() == ["DISPUTE_OPEN"]
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
    assert await school.notices() == ["DISPUTE_OPEN", "DISPUTE_WON"]
    assert await school.payments("status = 'paid' and withheld = 0") == 1
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
    assert await school.payments("status = 'lost' and withheld = $1 and refunded = 0", PRICE) == 1
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
    dispute = school.stripe.open_dispute(payment, amount=PRICE - 10000)
    school.stripe.close_dispute(dispute["id"], won=False)
    await school.deliver()
    assert await school.payments("refunded = 10000 and withheld = $1", PRICE - 10000) == 1
    assert (await school.row("enrollments", id=enrollment))["refund_amount"] == PRICE
    await school.verify()


@pytest.mark.acceptance("featuresThatMeet")
async def test_a_refund_refused_during_a_dispute_is_requested_again_if_it_is_won(school: School) -> None:
    enrollment = await school.enrol(await school.cohort())
    dispute = school.stripe.open_dispute(await intent(school, enrollment))
    await school.refund(enrollment)
    assert await school.status(enrollment) == "REFUND_PENDING"
    school.stripe.close_dispute(dispute["id"], won=True)
    await school.deliver()
    assert await school.status(enrollment) == "REFUNDED"
    assert len(school.stripe.books.refunds) == 1
    await school.verify()


@pytest.mark.acceptance("featuresThatMeet")
async def test_a_refund_refused_during_a_dispute_is_not_paid_twice_if_it_is_lost(school: School) -> None:
    enrollment = await school.enrol(await school.cohort())
    dispute = school.stripe.open_dispute(await intent(school, enrollment))
    await school.refund(enrollment)
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
    await school.deliver("refund.created", "charge.refunded")
    await school.deliver()
    assert (await school.payment(session))["refunded"] == 9900
    assert (await school.row("access_extensions", enrollment_id=enrollment))["status"] == "REVOKED"
    await school.verify()


async def test_a_lost_dispute_about_one_instalment_ends_the_access_and_the_plan(school: School) -> None:
    cohort = await school.cohort(instalment_price=17000, instalment_count=3)
    session = await school.start(cohort, await school.student("Ada"), instalments=True)
    school.stripe.pay(session)
    await school.deliver()
    enrollment = await school.enrolled(session)
    assert enrollment is not None
    subscription = school.stripe.books.sessions[session]["subscription"]
    invoice = school.stripe.renew(subscription)
    await school.deliver()
    dispute = school.stripe.open_dispute(invoice["payments"]["data"][0]["payment"]["payment_intent"])
    await school.deliver()
    assert await school.status(enrollment) == "ACTIVE", "the bank has not decided"
    school.stripe.close_dispute(dispute["id"], won=False)
    await school.deliver()
    row = await school.row("enrollments", id=enrollment)
    assert (row["status"], row["partial_refund"], row["amount_paid"]) == ("EXPIRED", 17000, 34000)
    assert school.stripe.billing.subscriptions[subscription]["status"] == "canceled"
    [mail] = await assert_sent(school.engine, "dispute-lost", to="ada@example.org", count=1)
    assert mail.data["refundAmount"] == 17000
    await school.verify()


async def test_a_won_dispute_does_not_restart_a_refund_that_was_settled_by_hand(school: School) -> None:
    enrollment = await school.enrol(await school.cohort())
    dispute = school.stripe.open_dispute(await intent(school, enrollment))
    [refund] = await school.refund(enrollment)
    assert await school.refund_state(refund) == ("failed", 1)
    async with school.transaction() as tx:
        await tx.payments.settle(refund, note="paid by bank transfer")
    assert await school.status(enrollment) == "REFUNDED"
    school.stripe.close_dispute(dispute["id"], won=True)
    await school.deliver()
    await school.lapse()
    assert await school.refund_state(refund) == ("settled", 1)
    assert (await school.status(enrollment), len(school.stripe.books.refunds)) == ("REFUNDED", 0)
    await school.verify()
