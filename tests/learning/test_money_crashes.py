"""Instalments, subscriptions, disputes and followed refunds, killed at every gate: the result is that of no crash."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from onceward_apps.learning.refund_requests import MAX_ATTEMPTS, refund_enrollment
from tests.learning.school import School
from tests.learning.test_crashes import Prepare, crash_at, fast, named, run, scheduled
from tests.learning.test_instalments import cohort_with_instalments, settle, subscribed
from tests.learning.test_refunds import intent

__all__ = ["fast"]


async def subscribed_student(school: School) -> tuple[UUID, UUID, str]:
    cohort = await cohort_with_instalments(school, count=2)
    return cohort, *(await subscribed(school, cohort))


async def started_subscription(school: School) -> UUID:
    """The session that enrols comes before the first invoice."""
    cohort = await cohort_with_instalments(school)
    school.stripe.pay(await school.start(cohort, await school.student(), instalments=True))
    for types in (("checkout.session.completed",), ("invoice.payment_succeeded",)):
        await school.deliver(*types, run=False)
    return cohort


async def last_instalment(school: School) -> UUID:
    cohort, _, subscription = await subscribed_student(school)
    school.stripe.renew(subscription)
    await school.deliver("invoice.payment_succeeded", run=False)
    return cohort


async def instalment_to_look_up(school: School) -> UUID:
    """The event does not name the payment."""
    cohort, _, subscription = await subscribed_student(school)
    school.stripe.renew(subscription)
    [event] = school.events("invoice.payment_succeeded")
    event["data"]["object"].pop("payments")
    await school.deliver("invoice.payment_succeeded", run=False)
    return cohort


async def instalment_after_the_refund(school: School) -> UUID:
    cohort, enrollment, subscription = await subscribed_student(school)
    school.stripe.renew(subscription)
    async with school.transaction() as tx:
        await refund_enrollment(tx, enrollment, reason="x", actor="test")
    await school.deliver("charge.refunded")
    await school.deliver("invoice.payment_succeeded", run=False)
    return cohort


async def refunded_subscriber(school: School) -> UUID:
    cohort, enrollment, _ = await subscribed_student(school)
    async with school.transaction() as tx:
        await refund_enrollment(tx, enrollment, reason="x", actor="test")
    return cohort


async def changed_subscription(school: School) -> UUID:
    cohort, _, subscription = await subscribed_student(school)
    school.stripe.renew(subscription, declined=True)
    await school.deliver("customer.subscription.updated", run=False)
    return cohort


async def ended_subscription(school: School) -> UUID:
    cohort, _, subscription = await subscribed_student(school)
    school.stripe.end_subscription(subscription)
    await school.deliver("customer.subscription.deleted", run=False)
    return cohort


async def disputed(school: School) -> tuple[UUID, UUID, dict[str, Any]]:
    cohort = await school.cohort(capacity=2)
    enrollment = await school.enrol(cohort)
    return cohort, enrollment, school.stripe.open_dispute(await intent(school, enrollment))


async def opened_dispute(school: School) -> UUID:
    cohort, _, _ = await disputed(school)
    await school.deliver("charge.dispute.created", run=False)
    return cohort


async def lost_dispute(school: School) -> UUID:
    cohort, _, dispute = await disputed(school)
    await school.deliver("charge.dispute.created")
    school.stripe.close_dispute(dispute["id"], won=False)
    await school.deliver("charge.dispute.closed", run=False)
    return cohort


async def won_dispute_with_a_refused_refund(school: School) -> UUID:
    cohort, enrollment, dispute = await disputed(school)
    async with school.transaction() as tx:
        await refund_enrollment(tx, enrollment, reason="x", actor="test")
    await school.deliver()
    school.stripe.close_dispute(dispute["id"], won=True)
    await school.deliver("charge.dispute.closed", run=False)
    return cohort


async def expired_checkout(school: School) -> UUID:
    cohort = await school.cohort(capacity=1)
    school.stripe.expire(await school.start(cohort, await school.student()))
    await school.deliver("checkout.session.expired", run=False)
    return cohort


async def late_payment(school: School) -> UUID:
    return await _late(school, succeeded=True)


async def late_payment_that_fails(school: School) -> UUID:
    return await _late(school, succeeded=False)


async def _late(school: School, *, succeeded: bool) -> UUID:
    cohort = await school.cohort(capacity=1)
    session = await school.start(cohort, await school.student())
    school.stripe.pay_later(session)
    await school.deliver("checkout.session.completed")
    school.stripe.end_late_payment(session, succeeded=succeeded)
    end = "succeeded" if succeeded else "failed"
    await school.deliver(f"checkout.session.async_payment_{end}", run=False)
    return cohort


async def replaced_payment(school: School) -> UUID:
    """A person changed the way to pay and paid on the earlier page before it was closed."""
    cohort = await school.cohort(capacity=1, instalment_price=17000, instalment_count=3)
    student = await school.student()
    first = await school.start(cohort, student)
    await school.start(cohort, student, instalments=True)
    school.stripe.pay(first)
    await school.deliver("checkout.session.completed", run=False)
    return cohort


async def returned_refund(school: School) -> UUID:
    cohort = await school.cohort(capacity=2)
    enrollment = await school.enrol(cohort)
    async with school.transaction() as tx:
        await refund_enrollment(tx, enrollment, reason="x", actor="test")
    await school.deliver()
    # The last attempt: one more would wait for an hour, which ends in some of the runs and not in others.
    await school.db.execute("update learning.refunds set attempt = $1", MAX_ATTEMPTS)
    school.stripe.move_refund(list(school.stripe.books.refunds)[-1], "failed")
    await school.deliver("refund.failed", run=False)
    return cohort


async def lost_confirmations(school: School) -> UUID:
    """A refund whose confirmation got lost, and a checkout whose end got lost."""
    cohort = await school.cohort(capacity=2)
    enrollment = await school.enrol(cohort)
    await school.start(cohort, await school.student())
    school.stripe.books.next_refund_statuses.append("pending")
    async with school.transaction() as tx:
        await refund_enrollment(tx, enrollment, reason="x", actor="test")
    await settle(school)
    for refund in school.stripe.books.refunds.values():
        refund["status"] = "succeeded"
    await school.db.execute("update learning.refunds set attempted_at = attempted_at - interval '2 hours'")
    await school.db.execute(
        "update learning.checkouts set expires_at = now() - interval '1 hour' where cohort_id = $1", cohort
    )
    return cohort


SCENARIOS: dict[str, tuple[Prepare, str]] = {
    named(prepare): (prepare, expected)
    for prepare, expected in (
        (started_subscription, "instalment"),
        (last_instalment, "instalment"),
        (instalment_to_look_up, "instalment"),
        (instalment_after_the_refund, "payment refusedenrollment_refundedtrue"),
        (refunded_subscriber, "subscription canceledtrue"),
        (changed_subscription, "subscription past_duefalse"),
        (ended_subscription, "subscription canceledtrue"),
        (expired_checkout, "checkout enrollmentexpired"),
        (late_payment, "enrolment ACTIVE"),
        (late_payment_that_fails, "checkout enrollmentfailed"),
        (replaced_payment, "payment refusedcheckout_replacedtrue"),
        (returned_refund, "enrolment REFUND_PENDING"),
        (opened_dispute, "dispute open"),
        (lost_dispute, "charged back"),
        (won_dispute_with_a_refused_refund, "dispute won"),
        (scheduled("learning.follow_refunds", lost_confirmations), "enrolment REFUNDED"),
    )
}


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", SCENARIOS)
async def test_a_crash_at_every_gate_changes_nothing(school: School, name: str) -> None:
    prepare, expected = SCENARIOS[name]
    _, left = await run(school, prepare, None)
    assert left.get(expected, 0) >= 1, left  # the scenario does what its name says
    assert left["unfinished"] == 0
    await crash_at(school, prepare, every=True)
