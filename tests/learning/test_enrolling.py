"""A payment becomes exactly one enrolment, or a refund with a reason."""

from __future__ import annotations

from pathlib import Path
from uuid import uuid4

import pytest

from onceward.db import Database
from onceward.testing import assert_broadcast, assert_published, assert_sent
from tests.learning.school import PRICE, SOURCE, School


@pytest.mark.acceptance("processCheckoutCompleted", "triggerEnrollmentCreatedWebhook")
async def test_a_paid_checkout_enrols_mails_publishes_and_broadcasts(school: School) -> None:
    cohort = await school.cohort(capacity=3)
    ada = await school.student("Ada")
    enrollment = await school.enrol(cohort, ada)

    row = await school.row("enrollments", id=enrollment)
    assert (row["status"], row["amount_paid"], row["currency"]) == ("ACTIVE", PRICE, "EUR")
    ends = await school.db.fetchval("select ends_at from learning.cohorts where id = $1", cohort)
    assert (row["access_expires_at"] - ends).days == 30
    assert await school.free(cohort) == 2
    await assert_sent(school.engine, "enrollment-welcome", to="ada@example.org", count=1)
    [event] = await assert_published(school.engine, "enrollment.created", count=1)
    assert event.data["userName"] == "Ada"
    assert event.data["amountPaid"] == PRICE
    [news] = await assert_broadcast(school.engine, f"cohort/{cohort}/enrollments", count=1)
    assert news.payload["type"] == "ENROLLMENT_CREATED"
    assert news.payload["spotsRemaining"] == 2
    assert not {"amountPaid", "payment_intent_id", "currency"} & set(news.payload)
    await school.verify()


@pytest.mark.acceptance("handleStripeWebhook")
async def test_a_second_delivery_and_a_second_event_of_a_session_change_nothing(school: School) -> None:
    cohort = await school.cohort()
    enrollment = await school.enrol(cohort)
    [event] = school.events("checkout.session.completed", fresh=False)
    session = event["data"]["object"]

    assert (await school.inbox.post(event, source="learning-stripe")).status == 200
    again = await school.send("checkout.session.completed", session)
    late = await school.send("checkout.session.async_payment_succeeded", session)

    assert again == late == {"status": "SUCCESS", "enrollmentId": str(enrollment), "repeated": True}
    assert await school.count("enrollments") == await school.count("payments") == 1
    assert school.stripe.books.refunds == {}


@pytest.mark.acceptance("processCheckoutCompleted")
async def test_a_full_cohort_refunds_waitlists_and_mails(school: School) -> None:
    cohort = await school.cohort(capacity=1)
    await school.enrol(cohort)
    late = await school.student("Late")
    await school.pay_without_hold(cohort, late)
    await school.deliver()

    [completed] = school.events("checkout.session.completed", fresh=False)[-1:]
    assert await school.result(completed["id"]) == {"status": "WAITLISTED", "reason": "cohort_full"}
    [refund] = school.stripe.books.refunds.values()
    assert refund["amount"] == PRICE
    assert refund["metadata"]["reason"] == "cohort_full"
    entry = await school.row("waitlist_entries", user_id=late)
    assert (entry["status"], entry["priority"]) == ("ACTIVE", 10)
    await assert_sent(school.engine, "cohort-full-waitlist", to="late@example.org", count=1)
    assert await school.count("refunds", "status = 'done'") == 1
    await school.verify()


@pytest.mark.acceptance("processCheckoutCompleted")
async def test_who_is_enrolled_already_gets_the_second_payment_back(school: School) -> None:
    cohort = await school.cohort()
    ada = await school.student("Ada")
    await school.enrol(cohort, ada)
    await school.pay_without_hold(cohort, ada)
    await school.deliver()
    assert await school.count("enrollments") == 1
    payment = await school.row("payments", purpose="refused")
    assert (payment["reason"], payment["refunded_amount"]) == ("already_enrolled", PRICE)
    await assert_sent(school.engine, "enrollment-refused-refund", to="ada@example.org", count=1)
    assert await school.count("waitlist_entries") == 0


async def test_a_payment_for_a_cohort_that_is_not_open_is_refunded(school: School) -> None:
    draft = await school.cohort(status="DRAFT")
    started = await school.cohort(starts_in_days=1)
    cancelled = await school.cohort()
    await school.set_status(cancelled, "CANCELLED")
    await school.later(days=2)
    for cohort in (draft, started, cancelled):
        await school.pay_without_hold(cohort, await school.student())
    await school.deliver()
    assert await school.count("enrollments") == 0
    assert await school.count("payments", "reason = 'cohort_not_enrollable' and refunded_amount = amount") == 3
    await school.verify()


async def test_a_wrong_amount_or_currency_is_refunded_and_operators_are_notified(school: School) -> None:
    cohort = await school.cohort()
    await school.pay_without_hold(cohort, await school.student(), amount=PRICE - 1)
    await school.pay_without_hold(cohort, await school.student(), currency="usd")
    await school.deliver()
    assert await school.count("enrollments") == 0
    assert await school.count("payments", "reason = 'amount_mismatch' and refunded_amount = amount") == 1
    assert await school.count("payments", "reason = 'currency_mismatch' and refunded_amount = amount") == 1
    assert (await school.notices()).count("PAYMENT_REFUSED") == 2


async def test_our_payment_without_a_known_cohort_or_user_is_refunded_and_operators_are_notified(
    school: School,
) -> None:
    cohort = await school.cohort()
    student = await school.student()
    await school.pay_without_hold(uuid4(), student)  # the user names the organization
    await school.pay_without_hold(uuid4(), uuid4())  # nothing names one
    await school.pay_without_hold(cohort, uuid4())
    await school.pay_without_hold(cohort, "")
    await school.pay_without_hold("not an id", "'; drop table learning.users")
    await school.deliver()
    assert await school.count("enrollments") == 0
    assert await school.count("payments", "purpose = 'refused' and refunded_amount = amount") == 5
    reasons = {row["reason"] for row in await school.db.fetch("select reason from learning.payments")}
    assert reasons == {"cohort_not_found", "user_not_found", "metadata_missing"}
    assert (await school.notices()).count("PAYMENT_REFUSED") == 5
    await school.verify()


@pytest.mark.acceptance("handleStripeWebhook")
async def test_a_payment_of_another_app_or_of_nobody_is_not_ours(school: School) -> None:
    cohort = await school.cohort()
    student = await school.student()
    await school.pay_without_hold(cohort, student, metadata={"app": "clinic"})
    await school.pay_without_hold("", "", metadata={"app": ""})
    await school.deliver()
    for event in school.events("checkout.session.completed", fresh=False):
        assert await school.result(event["id"]) == {"status": "not_ours"}
    assert await school.count("payments") == await school.count("enrollments") == 0
    assert await school.notices() == []
    assert school.stripe.books.refunds == {}


async def test_a_payment_without_our_mark_but_with_our_ids_is_ours(school: School) -> None:
    cohort = await school.cohort()
    await school.pay_without_hold(cohort, await school.student(), metadata={"app": ""})
    await school.deliver()
    assert await school.count("enrollments") == 1


async def test_a_cohort_of_another_organization_is_unknown_to_a_source_of_ours(db: Database, tmp_path: Path) -> None:
    school = await School.open(db, tmp_path, source=False)
    other = await school.add_organization("other")
    await school.inbox.add_source(SOURCE, provider="stripe", organization=other)
    await school.pay_without_hold(await school.cohort(), await school.student())
    await school.deliver()
    assert await school.count("enrollments") == 0
    payment = await school.row("payments", reason="cohort_not_found")
    assert (payment["organization_id"], payment["refunded_amount"]) == (other, PRICE)
    await school.close()


async def test_an_unpaid_session_waits_for_its_payment(school: School) -> None:
    cohort = await school.cohort()
    student = await school.student()
    session = await school.start(cohort, student)
    thing = {**school.stripe.books.sessions[session], "payment_status": "unpaid", "payment_intent": "pi_1"}
    assert await school.send("checkout.session.completed", thing) == {"status": "WAITING_FOR_PAYMENT"}
    assert await school.count("enrollments") == 0
    paid = {**thing, "payment_status": "paid"}
    assert (await school.send("checkout.session.async_payment_succeeded", paid))["status"] == "SUCCESS"


async def test_a_payment_that_fails_later_frees_the_place(school: School) -> None:
    cohort = await school.cohort(capacity=1)
    session = await school.start(cohort, await school.student())
    assert await school.free(cohort) == 0
    thing = school.stripe.books.sessions[session]
    assert await school.send("checkout.session.async_payment_failed", thing) == {"status": "RELEASED"}
    assert await school.free(cohort) == 1


async def test_an_expired_session_frees_its_place_and_a_late_payment_takes_a_free_one(school: School) -> None:
    cohort = await school.cohort(capacity=1)
    session = await school.start(cohort, await school.student())
    thing = school.stripe.books.sessions[session]
    assert await school.send("checkout.session.expired", thing) == {"status": "RELEASED"}
    assert await school.free(cohort) == 1
    school.stripe.pay(session)
    await school.deliver()
    assert await school.count("enrollments") == 1
    await school.verify()


async def test_a_free_cohort_and_nothing_to_pay_enrol(school: School) -> None:
    free = await school.cohort(price=0)
    url = await school.start(free, await school.student())
    assert await school.count("enrollments", "id::text = $1 and amount_paid = 0", url) == 1
    cohort = await school.cohort()
    metadata = {"app": "learning", "cohortId": str(cohort), "userId": str(await school.student())}
    thing = {"id": "cs_1", "payment_status": "no_payment_required", "amount_total": 0, "currency": "eur"}
    result = await school.send("checkout.session.completed", {**thing, "metadata": metadata})
    assert result["status"] == "SUCCESS"
    await school.verify()
