"""Refunds: ours and those made at Stripe, in any order, full and partial, confirmed and returned by a bank."""

from __future__ import annotations

from uuid import UUID

import pytest

from onceward.testing import assert_broadcast, assert_published, assert_sent, drain
from onceward_apps.learning import checkout
from onceward_apps.learning.errors import LearningError
from onceward_apps.learning.refund_requests import refund_enrollment, retry_refund
from onceward_apps.learning.waitlist import join
from tests.learning.school import PRICE, School


def refund_at_stripe(school: School, enrollment_payment: str, amount: int | None = None) -> None:
    fields = {"payment_intent": enrollment_payment, "reason": "requested_by_customer"}
    if amount is not None:
        fields["amount"] = str(amount)
    refund, charge = school.stripe.books.refund(fields)
    school.stripe.emit("refund.created", refund)
    school.stripe.emit("charge.refunded", charge)


async def intent(school: School, enrollment: object) -> str:
    """The charge of the first payment for an enrolment."""
    find = "select charge from onceward.payments where subject_type = 'enrolment' and subject_id = $1::uuid::text"
    return await school.db.fetchval(f"{find} and decision = 'accepted' order by created_at limit 1", enrollment)


@pytest.mark.acceptance("processChargeRefunded", "triggerEnrollmentRefundedWebhook")
async def test_a_full_refund_ends_the_enrolment_and_invites_the_next_person(school: School) -> None:
    cohort = await school.cohort(capacity=1)
    enrollment = await school.enrol(cohort)
    waiting = await school.student("Waiting")
    async with school.transaction() as tx:
        await join(tx, cohort, waiting)
    refund_at_stripe(school, await intent(school, enrollment))
    await school.deliver()

    row = await school.row("enrollments", id=enrollment)
    assert (row["status"], row["refund_amount"], row["claim_id"]) == ("REFUNDED", PRICE, None)
    assert row["access_expires_at"] <= row["refunded_at"]
    await assert_sent(school.engine, "refund-confirmation", count=1)
    [event] = await assert_published(school.engine, "enrollment.refunded", count=1)
    assert event.data["wasFullRefund"] is event.data["isFullRefund"] is True
    assert (await school.row("waitlist_entries", user_id=waiting))["status"] == "INVITED"
    await school.verify()


@pytest.mark.acceptance("processChargeRefunded")
async def test_partial_refunds_are_recorded_and_summed(school: School) -> None:
    cohort = await school.cohort()
    enrollment = await school.enrol(cohort)
    payment = await intent(school, enrollment)
    refund_at_stripe(school, payment, 10000)
    refund_at_stripe(school, payment, 5000)
    await school.deliver(order=lambda event: -event["created"])  # newest first

    row = await school.row("enrollments", id=enrollment)
    assert (row["status"], row["partial_refund"], row["refund_amount"]) == ("ACTIVE", 15000, None)
    changes = await assert_published(school.engine, "enrollment.updated", count=2)
    assert {change.data["change"] for change in changes} == {"partial_refund"}
    assert max(change.data["refundAmount"] for change in changes) == 15000
    news = await assert_broadcast(school.engine, f"cohort/{cohort}/enrollments", count=3)
    assert news[-1].payload["isFullRefund"] is False
    assert "refund-confirmation" not in dict(await school.mails())

    refund_at_stripe(school, payment)
    await school.deliver()
    assert await school.status(enrollment) == "REFUNDED"
    await school.verify()


@pytest.mark.acceptance("processChargeRefunded")
async def test_enrolment_and_refund_give_the_same_result_in_both_orders(school: School) -> None:
    cohort = await school.cohort(capacity=1)
    first, second = [await school.student() for _ in range(2)]
    session = await school.start(cohort, first)
    school.stripe.pay(session)
    refund_at_stripe(school, school.stripe.books.sessions[session]["payment_intent"])
    await school.deliver("refund.created", "charge.refunded")
    assert await school.count("enrollments") == 0
    await school.deliver()
    early = await school.row("enrollments", user_id=first)

    enrollment = await school.enrol(cohort, second)
    refund_at_stripe(school, await intent(school, enrollment))
    await school.deliver()
    late = await school.row("enrollments", user_id=second)
    for column in ("status", "refund_amount", "refund_reason", "claim_id", "amount_paid"):
        assert early[column] == late[column], column
    assert early["status"] == "REFUNDED"
    assert await school.free(cohort) == 1
    await school.verify()


async def test_an_operators_refund_is_pending_until_stripe_confirms(school: School) -> None:
    cohort = await school.cohort()
    enrollment = await school.enrol(cohort)
    school.stripe.books.next_refund_statuses.append("pending")
    [refund] = await school.refund(enrollment, reason="moved abroad", deliver=False)
    await drain(school.engine)
    assert await school.status(enrollment) == "REFUND_PENDING"
    assert await school.refund_state(refund) == ("pending", 1)
    school.stripe.move_refund(next(iter(school.stripe.books.refunds)), "succeeded")
    await school.deliver()
    assert await school.status(enrollment) == "REFUNDED"
    assert (await school.row("enrollments", id=enrollment))["refund_reason"] == "moved abroad"
    async with school.transaction() as tx:
        with pytest.raises(LearningError):
            await refund_enrollment(tx, enrollment, reason="again", actor="ops")
    await school.verify()


async def test_a_refund_that_the_bank_returns_is_alerted_and_tried_again(school: School) -> None:
    enrollment = await school.enrol(await school.cohort())
    [refund] = await school.refund(enrollment, reason="moved abroad")
    assert await school.status(enrollment) == "REFUNDED"

    [first] = school.stripe.books.refunds
    school.stripe.move_refund(first, "failed", failure_reason="lost_or_stolen_card")
    await school.deliver()
    assert await school.status(enrollment) == "REFUND_PENDING"
    assert "REFUND_FAILED" in await school.notices()
    assert await school.refund_state(refund) == ("failed", 1)

    # An old report that arrives late must not hide that the money is missing.
    stale = school.events("refund.created", fresh=False)[-1]
    await school.post({**stale, "id": "evt_late"})
    await drain(school.engine)
    assert await school.status(enrollment) == "REFUND_PENDING"

    await school.lapse()  # the hour after which it is tried again
    assert await school.status(enrollment) == "REFUNDED"
    assert await school.refund_state(refund) == ("done", 2)
    assert len(school.stripe.books.refunds) == 2
    await assert_sent(school.engine, "refund-confirmation", count=1)
    await school.verify()


async def test_a_refund_that_the_bank_returns_again_and_again_waits_for_a_person(school: School) -> None:
    enrollment = await school.enrol(await school.cohort())
    school.stripe.books.next_refund_statuses += ["failed"] * 5
    [refund] = await school.refund(enrollment)
    for _ in range(5):
        await school.lapse()
    assert await school.refund_state(refund) == ("failed", 3)
    assert await school.status(enrollment) == "REFUND_PENDING"
    async with school.transaction() as tx:
        await tx.payments.settle(refund, note="paid by bank transfer")
    assert await school.status(enrollment) == "REFUNDED"
    await school.verify()


async def test_a_refund_that_stripe_refuses_fails_and_an_operator_can_repeat_it(school: School) -> None:
    enrollment = await school.enrol(await school.cohort())
    payment = await intent(school, enrollment)
    charge = next(c for c in school.stripe.books.charges.values() if c["payment_intent"] == payment)
    charge["disputed"] = True
    [refund] = await school.refund(enrollment)
    await school.lapse()
    assert await school.refund_state(refund) == ("failed", 1), "nobody repeats what the service refuses"
    assert await school.status(enrollment) == "REFUND_PENDING"
    assert "REFUND_FAILED" in await school.notices()
    charge["disputed"] = False
    async with school.transaction() as tx:
        assert await retry_refund(tx, refund, actor="ops") == 2
    await school.deliver()
    assert await school.status(enrollment) == "REFUNDED"
    await school.verify()


async def test_a_lost_confirmation_is_found_by_asking(school: School) -> None:
    enrollment = await school.enrol(await school.cohort())
    school.stripe.books.next_refund_statuses.append("pending")
    await school.refund(enrollment, deliver=False)
    await drain(school.engine)
    [reference] = school.stripe.books.refunds
    school.stripe.books.refunds[reference]["status"] = "succeeded"
    await school.later(hours=2)
    await school.lapse()
    assert await school.status(enrollment) == "REFUNDED"


async def test_a_free_enrolment_whose_extension_was_paid_is_refunded(school: School) -> None:
    """No payment of the enrolment itself says that the money is back: that of the extension does."""
    cohort = await school.cohort(price=0, extension_price=9900)
    enrollment = UUID(await school.start(cohort, await school.student()))
    started = await checkout.start_extension(school.engine, school.organization, enrollment_id=enrollment)
    school.stripe.pay(started.url.rsplit("/", 1)[-1])
    await school.deliver()
    await school.refund(enrollment, deliver=False)
    assert await school.status(enrollment) == "REFUND_PENDING"
    await school.deliver()
    assert await school.status(enrollment) == "REFUNDED"
    assert [refund["amount"] for refund in school.stripe.books.refunds.values()] == [9900]
    await school.verify()


async def test_a_refund_survives_a_long_outage_of_the_payment_service(school: School) -> None:
    """Also in a cancelled cohort: its refunds gave up after twelve minutes."""
    cohort = await school.cohort()
    enrollment = await school.enrol(cohort)
    school.stripe.drop_before_send(1000)
    await school.set_status(cohort, "CANCELLED")
    for _ in range(8):
        await school.lapse()
    assert await school.status(enrollment) == "REFUND_PENDING"
    school.stripe.clear_faults()
    await school.lapse()
    assert await school.status(enrollment) == "REFUNDED"
    assert "failed-refunds-alert" not in dict(await school.mails())
    await school.verify()
