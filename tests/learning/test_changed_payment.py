"""A person who changes the way to pay has one page to pay on. Money that arrives on an older page goes back in full."""

from __future__ import annotations

import asyncio
from typing import Any
from uuid import UUID

import pytest

from onceward.services import ServiceAnswer
from onceward.testing import drain
from onceward_apps.learning import checkout
from onceward_apps.learning.errors import PaymentUnavailable
from tests.learning.school import PRICE, School
from tests.learning.test_instalments import INSTALMENT, cohort_with_instalments, settle


def page(school: School, session: str) -> str:
    return school.stripe.books.sessions[session]["status"]


def refunded(school: School) -> list[int]:
    return [refund["amount"] for refund in school.stripe.books.refunds.values()]


async def start_extension(school: School, enrollment: UUID) -> str:
    started = await checkout.start_extension(school.engine, school.organization, enrollment_id=enrollment)
    return started.url.rsplit("/", 1)[-1]


@pytest.mark.parametrize("instalments_first", [False, True])
async def test_changing_the_way_to_pay_closes_the_earlier_page(school: School, instalments_first: bool) -> None:
    cohort, student = await cohort_with_instalments(school), await school.student()
    first = await school.start(cohort, student, instalments=instalments_first)
    second = await school.start(cohort, student, instalments=not instalments_first)
    await school.deliver()
    assert (page(school, first), page(school, second)) == ("expired", "open")
    school.stripe.pay(second)
    await settle(school)
    assert await school.count("enrollments", "stripe_session_id = $1 and status = 'ACTIVE'", second) == 1
    assert refunded(school) == []
    await school.verify()


async def test_a_payment_on_the_earlier_page_goes_back_once_and_operators_see_it(school: School) -> None:
    cohort, student = await cohort_with_instalments(school), await school.student()
    first = await school.start(cohort, student)
    second = await school.start(cohort, student, instalments=True)
    school.stripe.pay(first)  # before the job closes the page
    [event] = school.events("checkout.session.completed")
    await settle(school)
    assert await school.result(event["id"]) == {"status": "REFUNDED", "reason": "checkout_replaced"}
    await school.send("checkout.session.completed", event["data"]["object"])
    assert refunded(school) == [PRICE]
    assert (await school.count("enrollments"), page(school, second)) == (0, "open")
    assert await school.notices() == ["PAYMENT_REFUSED"]
    assert [template for template, _ in await school.mails() if template != "admin-notice"] == [
        "enrollment-refused-refund"
    ]
    school.stripe.pay(second)
    await settle(school)
    assert await school.count("enrollments", "stripe_session_id = $1", second) == 1
    assert refunded(school) == [PRICE]
    await school.verify()


async def test_a_subscription_of_the_earlier_page_ends_and_does_not_touch_the_enrolment(school: School) -> None:
    cohort, student = await cohort_with_instalments(school), await school.student()
    first = await school.start(cohort, student, instalments=True)
    second = await school.start(cohort, student)
    school.stripe.pay(second)
    school.stripe.pay(first)
    await settle(school)
    row = await school.row("enrollments", stripe_session_id=second)
    ends = await school.db.fetchval("select ends_at + interval '30 days' from learning.cohorts")
    assert (row["status"], row["amount_paid"], row["access_expires_at"]) == ("ACTIVE", PRICE, ends)
    subscription = school.stripe.books.sessions[first]["subscription"]
    assert school.stripe.billing.subscriptions[subscription]["status"] == "canceled"
    assert (await school.row("subscriptions", stripe_subscription_id=subscription))["enrollment_id"] is None
    assert refunded(school) == [INSTALMENT]
    assert await school.count("payments", "reason = 'checkout_replaced' and refunded_amount = amount") == 1
    assert await school.notices() == ["PAYMENT_REFUSED"]
    await school.verify()


async def test_a_page_that_is_about_to_end_is_closed_when_the_checkout_starts_again(school: School) -> None:
    cohort, student = await school.cohort(capacity=1), await school.student()
    first = await school.start(cohort, student)
    await school.db.execute("update learning.checkouts set expires_at = now() + interval '1 minute'")
    second = await school.start(cohort, student)
    await school.deliver()
    assert (page(school, first), page(school, second), await school.free(cohort)) == ("expired", "open", 0)


async def test_an_extension_that_is_paid_on_the_earlier_page_goes_back(school: School) -> None:
    enrollment = await school.enrol(await school.cohort(extension_price=9900))
    first = await start_extension(school, enrollment)
    await school.db.execute("update learning.checkouts set expires_at = now() + interval '1 minute'")
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


async def test_a_page_that_opens_after_its_checkout_was_replaced_is_closed(
    school: School, monkeypatch: pytest.MonkeyPatch
) -> None:
    cohort, student = await cohort_with_instalments(school), await school.student()
    opened, replaced = asyncio.Event(), asyncio.Event()
    create = checkout._create_session  # pyright: ignore[reportPrivateUsage]

    async def create_slowly(organization: UUID, row: Any, *rest: Any) -> ServiceAnswer:
        outcome = await create(organization, row, *rest)
        if row["kind"] == "enrollment":
            opened.set()
            await replaced.wait()
        return outcome

    monkeypatch.setattr(checkout, "_create_session", create_slowly)
    first = asyncio.create_task(school.start(cohort, student))
    await opened.wait()
    second = await school.start(cohort, student, instalments=True)
    replaced.set()
    with pytest.raises(PaymentUnavailable):
        await first
    await drain(school.engine)
    states = {session: each["status"] for session, each in school.stripe.books.sessions.items()}
    assert states.pop(second) == "open"
    assert list(states.values()) == ["expired"]
