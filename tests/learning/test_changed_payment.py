"""A person who changes the way to pay has one page to pay on. Money that arrives on an older page goes back in full."""

from __future__ import annotations

from uuid import UUID

import pytest

from onceward_apps.learning import checkout
from onceward_apps.learning.errors import PaymentUnavailable
from tests.learning.school import PRICE, School
from tests.learning.test_instalments import INSTALMENT, at_stripe, cohort_with_instalments


def page(school: School, session: str) -> str:
    return school.stripe.books.sessions[session]["status"]


def refunded(school: School) -> list[int]:
    return [refund["amount"] for refund in school.stripe.books.refunds.values()]


async def start_extension(school: School, enrollment: UUID) -> str:
    started = await checkout.start_extension(school.engine, school.organization, enrollment_id=enrollment)
    return started.url.rsplit("/", 1)[-1]


async def near_the_end(school: School) -> None:
    """All open pages end in a minute."""
    await school.db.execute("update onceward.payments set close_at = now() + interval '1 minute' where status = 'open'")


@pytest.mark.parametrize("instalments_first", [False, True])
async def test_changing_the_way_to_pay_closes_the_earlier_page(school: School, instalments_first: bool) -> None:
    cohort, student = await cohort_with_instalments(school, capacity=1), await school.student()
    first = await school.start(cohort, student, instalments=instalments_first)
    second = await school.start(cohort, student, instalments=not instalments_first)
    assert await school.start(cohort, student, instalments=not instalments_first) == second
    assert await school.free(cohort) == 0
    await school.deliver()
    assert (page(school, first), page(school, second)) == ("expired", "open")
    school.stripe.pay(second)
    await school.deliver()
    assert await school.enrolled(second) is not None
    assert refunded(school) == []
    await school.verify()


async def test_a_payment_on_the_earlier_page_goes_back_once_and_operators_see_it(school: School) -> None:
    cohort, student = await cohort_with_instalments(school), await school.student()
    first = await school.start(cohort, student)
    second = await school.start(cohort, student, instalments=True)
    school.stripe.pay(first)  # before the job closes the page
    [event] = school.events("checkout.session.completed")
    await school.deliver()
    assert {"status": "REFUNDED", "reason": "checkout_replaced"} in await school.results()
    await school.send("checkout.session.completed", event["data"]["object"])
    assert refunded(school) == [PRICE]
    assert (await school.count("enrollments"), page(school, second)) == (0, "open")
    assert await school.notices() == ["PAYMENT_REFUSED"]
    assert [template for template, _ in await school.mails() if template != "admin-notice"] == [
        "enrollment-refused-refund"
    ]
    school.stripe.pay(second)
    await school.deliver()
    assert await school.enrolled(second) is not None
    assert refunded(school) == [PRICE]
    await school.verify()


async def test_a_subscription_of_the_earlier_page_ends_and_does_not_touch_the_enrolment(school: School) -> None:
    cohort, student = await cohort_with_instalments(school), await school.student()
    first = await school.start(cohort, student, instalments=True)
    second = await school.start(cohort, student)
    school.stripe.pay(second)
    school.stripe.pay(first)
    await school.deliver()
    enrollment = await school.enrolled(second)
    assert enrollment is not None
    row = await school.row("enrollments", id=enrollment)
    ends = await school.db.fetchval("select ends_at + interval '30 days' from learning.cohorts")
    assert (row["status"], row["amount_paid"], row["access_expires_at"]) == ("ACTIVE", PRICE, ends)
    assert at_stripe(school, school.stripe.books.sessions[first]["subscription"]) == "canceled"
    assert refunded(school) == [INSTALMENT]
    assert await school.payments("decided_reason = 'checkout_replaced' and refunded = received") == 1
    assert await school.notices() == ["PAYMENT_REFUSED"]
    await school.verify()


async def test_a_page_that_is_about_to_end_is_replaced_when_the_checkout_starts_again(school: School) -> None:
    cohort, student = await school.cohort(capacity=1), await school.student()
    first = await school.start(cohort, student)
    await near_the_end(school)
    second = await school.start(cohort, student)
    await school.deliver()
    assert (page(school, first), page(school, second), await school.free(cohort)) == ("expired", "open", 0)


async def test_an_extension_that_is_paid_on_the_earlier_page_goes_back(school: School) -> None:
    enrollment = await school.enrol(await school.cohort(extension_price=9900))
    first = await start_extension(school, enrollment)
    await near_the_end(school)
    second = await start_extension(school, enrollment)
    school.stripe.pay(first)
    school.stripe.pay(second)
    await school.deliver()
    assert (await school.count("access_extensions"), refunded(school)) == (1, [9900])
    await school.verify()


async def test_a_bank_debit_on_a_page_that_was_replaced_before_its_webhook_came_goes_back(school: School) -> None:
    cohort, student = await cohort_with_instalments(school), await school.student()
    debit = await school.start(cohort, student)
    school.stripe.pay_later(debit)
    newer = await school.start(cohort, student, instalments=True)
    await school.deliver()
    assert await school.start(cohort, student, instalments=True) == newer, "the debit buys nothing, so it stops nobody"
    school.stripe.end_late_payment(debit, succeeded=True)
    await school.deliver()
    assert (await school.count("enrollments"), refunded(school), page(school, newer)) == (0, [PRICE], "open")
    await school.verify()


async def test_a_page_that_cannot_be_opened_gives_its_place_back(school: School) -> None:
    cohort, student = await school.cohort(capacity=1), await school.student()
    school.stripe.drop_before_send(10)
    with pytest.raises(PaymentUnavailable):
        await school.start(cohort, student)
    assert (await school.free(cohort), await school.count("checkouts", "status = 'started'")) == (1, 0)
    school.stripe.clear_faults()
    await school.start(cohort, student)
    await school.lapse()
    assert (await school.free(cohort), await school.count("checkouts", "status = 'started'")) == (0, 1)
