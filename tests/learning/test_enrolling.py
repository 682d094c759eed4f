"""A payment becomes exactly one enrolment, or a refund with a reason."""

from __future__ import annotations

import pytest

from onceward.testing import assert_broadcast, assert_published, assert_sent
from onceward_apps.learning import checkout, waitlist
from onceward_apps.learning.cohorts import set_capacity
from tests.learning.school import PRICE, School


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
    assert {"status": "SUCCESS", "enrollmentId": str(enrollment)} in await school.results()

    assert (await school.inbox.post(event, source="learning-stripe")).status == 200
    again = await school.send("checkout.session.completed", session)
    late = await school.send("checkout.session.async_payment_succeeded", session)

    assert again == late == {"payments": ["known"]}
    assert await school.count("enrollments") == await school.payments() == 1
    assert school.stripe.books.refunds == {}


@pytest.mark.acceptance("processCheckoutCompleted")
async def test_a_full_cohort_refunds_waitlists_and_mails(school: School) -> None:
    cohort = await school.cohort(capacity=1)
    late = await school.student("Late")
    session = await school.start(cohort, late)
    await school.lose_holds()
    await school.enrol(cohort)
    school.stripe.pay(session)
    await school.deliver()

    assert {"status": "WAITLISTED", "reason": "cohort_full"} in await school.results()
    [refund] = school.stripe.books.refunds.values()
    assert refund["amount"] == PRICE
    assert refund["metadata"]["reason"] == "cohort_full"
    entry = await school.row("waitlist_entries", user_id=late)
    assert (entry["status"], entry["priority"]) == ("ACTIVE", 10)
    await assert_sent(school.engine, "cohort-full-waitlist", to="late@example.org", count=1)
    assert (await school.payment(session))["status"] == "refunded"
    await school.verify()


@pytest.mark.acceptance("processCheckoutCompleted")
async def test_who_is_enrolled_already_gets_the_second_payment_back(school: School) -> None:
    cohort = await school.cohort()
    ada = await school.student("Ada")
    await school.enrol(cohort, ada)
    session = await school.pay_as_stranger(cohort, ada)
    await school.deliver()
    assert await school.count("enrollments") == 1
    payment = await school.payment(session)
    assert (payment["decided_reason"], payment["refunded"]) == ("already_enrolled", PRICE)
    await assert_sent(school.engine, "enrollment-refused-refund", to="ada@example.org", count=1)
    assert await school.count("waitlist_entries") == 0
    assert await school.free(cohort) == 9, "the second place is free again"
    await school.verify()


async def test_a_payment_for_a_cohort_that_is_not_open_any_more_is_refunded(school: School) -> None:
    started, cancelled = await school.cohort(starts_in_days=1), await school.cohort()
    for cohort in (started, cancelled):
        school.stripe.pay(await school.start(cohort, await school.student()))
    await school.set_status(cancelled, "CANCELLED")
    await school.db.execute("update learning.cohorts set starts_at = now() where id = $1", started)
    await school.deliver()
    assert await school.count("enrollments") == 0
    assert await school.payments("decided_reason = 'cohort_not_enrollable' and refunded = received") == 2
    await school.verify()


@pytest.mark.acceptance("handleStripeWebhook")
async def test_payments_of_other_software_on_the_same_account_are_left_alone(school: School) -> None:
    """Ours is what we opened: neither an app's mark nor ids of ours in the metadata make a payment ours."""
    cohort = await school.cohort()
    metadata = {"app": "learning", "cohortId": str(cohort), "userId": str(await school.student())}
    item = {"quantity": "1", "price_data": {"currency": "eur", "unit_amount": "100", "product_data": {"name": "x"}}}
    fields = {"line_items": {"0": item}, "mode": "payment", "success_url": "https://x", "metadata": metadata}
    session = school.stripe.books.new_session(fields, pages_url=school.stripe.url)
    school.stripe.pay(session["id"])
    await school.deliver()
    [event] = school.events("checkout.session.completed", fresh=False)
    assert await school.result(event["id"]) == {"payments": ["foreign"]}
    assert await school.payments() == await school.count("enrollments") == 0
    assert await school.notices() == []
    assert school.stripe.books.refunds == {}


async def test_a_payment_that_fails_later_frees_the_place(school: School) -> None:
    cohort = await school.cohort(capacity=1)
    session = await school.start(cohort, await school.student())
    assert await school.free(cohort) == 0
    school.stripe.pay_later(session)
    await school.deliver()
    school.stripe.end_late_payment(session, succeeded=False)
    await school.deliver()
    assert (await school.free(cohort), await school.count("checkouts", "status = 'ended'")) == (1, 1)


async def test_an_ended_page_frees_its_place_and_a_late_payment_takes_a_free_one(school: School) -> None:
    """The page was paid in its last second: the service says so only after we had been informed of its end."""
    cohort = await school.cohort(capacity=1)
    session = await school.start(cohort, await school.student())
    await school.later(hours=1)
    expired = {**school.stripe.books.sessions[session], "status": "expired"}
    await school.send("checkout.session.expired", expired)
    assert (await school.free(cohort), await school.count("checkouts", "status = 'ended'")) == (1, 1)
    school.stripe.pay(session)
    await school.deliver()
    assert await school.count("enrollments") == 1
    await school.verify()


async def test_a_place_that_a_page_gave_back_is_offered(school: School) -> None:
    cohort = await school.cohort(capacity=1)
    await school.start(cohort, await school.student())
    waiting = await school.student()
    async with school.transaction() as tx:
        await waitlist.join(tx, cohort, waiting)
    await school.later(hours=1)
    await school.lapse()
    assert await school.free(cohort) == 0
    assert (await school.row("waitlist_entries", user_id=waiting))["status"] == "INVITED"


async def test_a_free_cohort_enrols_without_a_payment(school: School) -> None:
    free = await school.cohort(price=0)
    url = await school.start(free, await school.student())
    assert await school.count("enrollments", "id::text = $1 and amount_paid = 0", url) == 1
    assert await school.payments() == 0
    await school.verify()


async def test_a_cohort_that_was_made_smaller_keeps_the_place_of_a_checkout(school: School) -> None:
    cohort = await school.cohort(capacity=2)
    first, second = [await school.start(cohort, await school.student()) for _ in range(2)]
    async with school.transaction() as tx:
        await set_capacity(tx, cohort, 1, actor="test")
    for session in (first, second):
        school.stripe.pay(session)
    await school.deliver()
    assert await school.count("enrollments") + await school.count("waitlist_entries") == 2
    await school.verify()


async def test_an_extension_of_an_enrolment_that_was_refunded_meanwhile_is_refunded(school: School) -> None:
    enrollment = await school.enrol(await school.cohort(extension_price=9900))
    started = await checkout.start_extension(school.engine, school.organization, enrollment_id=enrollment)
    await school.refund(enrollment)
    school.stripe.pay(started.url.rsplit("/", 1)[-1])
    await school.deliver()
    assert await school.payments("decided_reason = 'enrollment_refunded' and refunded = received") == 1
    assert "PAYMENT_REFUSED" in await school.notices()
    await school.verify()
