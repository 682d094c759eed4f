"""Refunds: ours and those made at Stripe, in any order, full and partial, confirmed and returned by a bank."""

from __future__ import annotations

import pytest

from onceward.testing import assert_broadcast, assert_published, assert_sent, drain
from onceward_apps.learning.errors import LearningError
from onceward_apps.learning.refund_requests import Answer, record_answer, refund_enrollment, retry_refund
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
    return await school.db.fetchval("select payment_intent_id from learning.enrollments where id = $1", enrollment)


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
async def test_partial_refunds_are_recorded_and_the_largest_sum_counts(school: School) -> None:
    cohort = await school.cohort()
    enrollment = await school.enrol(cohort)
    payment = await intent(school, enrollment)
    refund_at_stripe(school, payment, 10000)
    refund_at_stripe(school, payment, 5000)
    await school.deliver(order=lambda event: -event["data"]["object"].get("amount_refunded", 0))  # newest first

    row = await school.row("enrollments", id=enrollment)
    assert (row["status"], row["partial_refund"], row["refund_amount"]) == ("ACTIVE", 15000, None)
    changes = await assert_published(school.engine, "enrollment.updated", count=1)
    assert changes[0].data["change"] == "partial_refund"
    assert changes[0].data["refundAmount"] == 15000
    news = await assert_broadcast(school.engine, f"cohort/{cohort}/enrollments", count=2)
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
    await school.deliver("charge.refunded")
    assert await school.count("refunds_seen", "applied_at is null") == 1
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


async def test_a_refund_of_an_unknown_payment_that_is_not_ours_is_not_kept(school: School) -> None:
    charge = {"id": "ch_1", "amount": 100, "amount_refunded": 100, "currency": "eur", "payment_intent": "pi_other"}
    assert await school.send("charge.refunded", charge) == {"status": "not_ours"}
    ours = {**charge, "payment_intent": "pi_x", "metadata": {"app": "learning", "cohortId": str(await school.cohort())}}
    assert await school.send("charge.refunded", ours) == {"status": "NO_ENROLLMENT_FOUND"}
    assert await school.count("refunds_seen") == 1


async def test_an_amount_above_the_payment_is_recorded_as_the_payment(school: School) -> None:
    enrollment = await school.enrol(await school.cohort())
    payment = await intent(school, enrollment)
    charge = {
        "id": "ch_1",
        "amount": PRICE,
        "amount_refunded": 10 * PRICE,
        "currency": "eur",
        "payment_intent": payment,
    }
    assert (await school.send("charge.refunded", charge))["refundType"] == "FULL"
    assert (await school.row("payments", payment_intent_id=payment))["refunded_amount"] == PRICE


async def test_an_operators_refund_is_pending_until_stripe_confirms(school: School) -> None:
    cohort = await school.cohort()
    enrollment = await school.enrol(cohort)
    school.stripe.books.next_refund_statuses.append("pending")
    async with school.transaction() as tx:
        [refund] = await refund_enrollment(tx, enrollment, reason="moved abroad", actor="ops")
    await drain(school.engine)
    assert await school.status(enrollment) == "REFUND_PENDING"
    assert (await school.row("refunds", id=refund))["status"] == "requested"
    await school.deliver()
    assert await school.status(enrollment) == "REFUNDED"
    assert (await school.row("enrollments", id=enrollment))["refund_reason"] == "moved abroad"
    assert (await school.row("refunds", id=refund))["status"] == "done"
    async with school.transaction() as tx:
        with pytest.raises(LearningError):
            await refund_enrollment(tx, enrollment, reason="again", actor="ops")
    await school.verify()


async def test_a_refund_that_the_bank_returns_is_alerted_and_tried_again(school: School) -> None:
    enrollment = await school.enrol(await school.cohort())
    async with school.transaction() as tx:
        [refund] = await refund_enrollment(tx, enrollment, reason="moved abroad", actor="ops")
    await school.deliver()
    assert await school.status(enrollment) == "REFUNDED"

    [first] = school.stripe.books.refunds
    school.stripe.move_refund(first, "failed", failure_reason="lost_or_stolen_card")
    await school.deliver()
    assert await school.status(enrollment) == "REFUND_PENDING"
    assert "REFUND_FAILED" in await school.notices()
    row = await school.row("refunds", id=refund)
    assert (row["status"], row["attempt"]) == ("pending", 2)

    # An old report that arrives late must not hide that the money is missing.
    stale = school.events("charge.refunded", fresh=False)[-1]
    late = {**stale, "id": "evt_late"}
    await school.post(late)
    await drain(school.engine)
    assert (await school.result("evt_late"))["status"] == "STALE"
    assert await school.status(enrollment) == "REFUND_PENDING"

    await school.db.execute("update onceward.work set sort_at = now() where task = 'learning.refund_payment'")
    await school.db.execute("update learning.payments set refund_failed_at = refund_failed_at - interval '10 s'")
    await school.deliver()
    assert await school.status(enrollment) == "REFUNDED"
    assert len(school.stripe.books.refunds) == 2
    await assert_sent(school.engine, "refund-confirmation", count=1)
    await school.verify()


async def test_the_webhook_about_a_refund_that_failed_at_once_does_not_fail_the_next_attempt(school: School) -> None:
    """The answer to the request has reported the failure already, and the next attempt has no id at Stripe yet."""
    enrollment = await school.enrol(await school.cohort())
    school.stripe.books.next_refund_statuses.append("failed")
    async with school.transaction() as tx:
        [refund] = await refund_enrollment(tx, enrollment, reason="x", actor="ops")
    await drain(school.engine)
    [made] = school.stripe.books.refunds.values()
    for _ in range(2):
        assert (await school.send("refund.failed", made))["status"] == "UNCHANGED"
    row = await school.row("refunds", id=refund)
    assert (row["status"], row["attempt"]) == ("pending", 2)
    assert (await school.notices()).count("REFUND_FAILED") == 1


async def test_the_answer_that_comes_after_the_webhook_about_the_failure_belongs_to_the_failed_attempt(
    school: School,
) -> None:
    enrollment = await school.enrol(await school.cohort())
    async with school.transaction() as tx:
        [refund] = await refund_enrollment(tx, enrollment, reason="x", actor="ops")
    made = {"id": "re_1", "status": "failed", "payment_intent": await intent(school, enrollment), "amount": PRICE}
    failed = {**made, "metadata": {"app": "learning", "refundId": str(refund)}}
    assert (await school.send("refund.failed", failed))["status"] == "SUCCESS"
    async with school.transaction() as tx:
        await record_answer(tx, refund, Answer("re_1", "pending"), attempt=1)
    row = await school.row("refunds", id=refund)
    assert (row["status"], row["attempt"], row["provider_refund_id"]) == ("pending", 2, None)


async def test_a_refund_that_stripe_refuses_fails_and_an_operator_can_repeat_it(school: School) -> None:
    enrollment = await school.enrol(await school.cohort())
    payment = await intent(school, enrollment)
    charge = next(c for c in school.stripe.books.charges.values() if c["payment_intent"] == payment)
    charge["disputed"] = True
    async with school.transaction() as tx:
        [refund] = await refund_enrollment(tx, enrollment, reason="x", actor="ops")
    await school.deliver()
    assert (await school.row("refunds", id=refund))["status"] == "failed"
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
    async with school.transaction() as tx:
        await refund_enrollment(tx, enrollment, reason="x", actor="ops")
    await drain(school.engine)
    [reference] = school.stripe.books.refunds
    school.stripe.books.refunds[reference]["status"] = "succeeded"
    await school.later(hours=2)
    await school.schedule("learning.follow_refunds")
    assert await school.status(enrollment) == "REFUNDED"
