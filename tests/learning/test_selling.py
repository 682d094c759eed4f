"""Discount codes, refunds of a part, and the seats of companies."""

from __future__ import annotations

import asyncio
from typing import Any
from uuid import UUID

import pytest

from onceward.money import Money
from onceward.testing import assert_sent, drain
from onceward_apps.learning import checkout, discounts, seats, sign_in, users
from onceward_apps.learning.enrollments import move
from onceward_apps.learning.errors import (
    CohortFull,
    DiscountInvalid,
    InvalidRequest,
    LearningError,
    SeatsTaken,
)
from onceward_apps.learning.refund_requests import refund_part
from tests.learning.school import School


async def code(school: School, text: str = "SPRING-31", **more: Any) -> UUID:
    values: dict[str, Any] = {"percent": 20, **more}
    async with school.transaction() as tx:
        return (await discounts.add(tx, text, **values, actor="op"))["id"]


async def start(school: School, cohort: UUID, student: UUID, text: str = "spring-31", **more: Any) -> str:
    opened = await checkout.start_checkout(
        school.engine, school.organization, cohort_id=cohort, user_id=student, discount_code=text, **more
    )
    return opened.url.rsplit("/", 1)[-1]


async def uses(school: School, discount: UUID) -> tuple[int, int]:
    row = await school.db.fetchrow("select * from onceward.capacity_pools where key = $1", f"discount:{discount}")
    assert row is not None
    return row["held"], row["sold"]


@pytest.mark.acceptance("discountCodes")
async def test_a_code_lowers_the_price_and_is_not_used_more_often_than_it_may_be(school: School) -> None:
    cohort, discount = await school.cohort(), await code(school, most_uses=1)
    ada, bob = await school.student("Ada"), await school.student("Bob")
    session = await start(school, cohort, ada)
    assert await start(school, cohort, ada) == session, "the same request has the same page"
    assert await uses(school, discount) == (1, 0)
    with pytest.raises(DiscountInvalid, match="as often as it can be"):
        await start(school, cohort, bob)
    assert await school.free(cohort) == 9, "a refused code holds no place"
    school.stripe.pay(session)
    await school.deliver()
    enrollment = await school.enrolled(session)
    assert enrollment is not None
    assert (await school.row("enrollments", id=enrollment))["amount_paid"] == 39920
    assert await uses(school, discount) == (0, 1)
    await school.refund(enrollment)
    assert (await school.status(enrollment), await uses(school, discount)) == ("REFUNDED", (0, 1))
    await school.verify()


@pytest.mark.acceptance("discountCodes")
async def test_another_code_or_none_gets_another_page_and_frees_the_use(school: School) -> None:
    cohort, ada = await school.cohort(instalment_price=10000, instalment_count=5), await school.student("Ada")
    first, second = await code(school), await code(school, "TENOFF", percent=None, amount=Money(1000, "EUR"))
    pages = [await start(school, cohort, ada, text) for text in ("SPRING-31", "TENOFF", "")]
    assert len(set(pages)) == 3
    assert [await uses(school, each) for each in (first, second)] == [(0, 0), (0, 0)]
    with pytest.raises(DiscountInvalid, match="not for instalments"):
        await start(school, cohort, ada, "TENOFF", instalments=True)
    plan = await start(school, cohort, ada, "SPRING-31", instalments=True)
    assert (await school.payment(plan))["amount"] == 8000
    await school.lose_holds()  # and another person takes the last use: who pays the shown price is enrolled
    async with school.transaction() as tx:
        await discounts.change(tx, first, most_uses=1, valid_until=None, actor="op")
    await start(school, cohort, await school.student("Bob"))
    school.stripe.pay(plan)
    await school.deliver()
    assert await school.enrolled(plan) is not None
    assert await uses(school, first) == (1, 0)
    await school.verify()


async def test_a_code_that_does_not_count_has_one_answer(school: School) -> None:
    cohort, other = await school.cohort(), await school.cohort(name="Other", price=500)
    await code(school, cohort_id=cohort)
    await code(school, "REAIS-10", percent=None, amount=Money(1000, "BRL"))
    await code(school, "TOO-MUCH", percent=None, amount=Money(500, "EUR"))
    ada = await school.student("Ada")
    for text in ("NO-SUCH-CODE", "spring-31", "REAIS-10", "TOO-MUCH", "\x00" * 9):
        with pytest.raises(DiscountInvalid, match="not valid for this course"):
            await start(school, other, ada, text)
    await school.db.execute("update learning.discount_codes set valid_until = now()")
    with pytest.raises(DiscountInvalid, match="not valid"):
        await start(school, cohort, ada)
    async with school.transaction() as tx:
        both = {"percent": 5, "amount": Money(1, "EUR")}
        wrongs: tuple[dict[str, Any], ...] = ({"percent": 100}, {"percent": None}, both)
        for wrong in wrongs:
            with pytest.raises(InvalidRequest, match="code 'ANOTHER'"):
                await discounts.add(tx, "ANOTHER", **wrong, actor="op")
        with pytest.raises(LearningError, match="already"):
            await discounts.add(tx, "spring-31", percent=5, actor="op")


@pytest.mark.acceptance("partialRefund")
async def test_a_part_goes_back_and_the_student_keeps_the_place(school: School) -> None:
    cohort = await school.cohort()
    enrollment = await school.enrol(cohort)

    async def give_back(amount: int, currency: str = "EUR") -> None:
        async with school.transaction() as tx:
            await refund_part(tx, enrollment, Money(amount, currency), reason="a session was cancelled", actor="op")

    await give_back(9900)
    await school.deliver()
    row = await school.row("enrollments", id=enrollment)
    assert (row["status"], row["partial_refund"], await school.free(cohort)) == ("ACTIVE", 9900, 9)
    await give_back(10000)
    await school.deliver()
    mails = await assert_sent(school.engine, "refund-partial", count=2)
    assert {mail.data["refundAmount"] for mail in mails} == {9900, 10000}
    for wrong in (30000, 0):
        with pytest.raises(LearningError, match=r"300\.00 EUR remain"):
            await give_back(wrong)
    with pytest.raises(InvalidRequest, match="the student paid in EUR"):
        await give_back(1, "BRL")
    await school.refund(enrollment)
    row = await school.row("enrollments", id=enrollment)
    assert (row["status"], row["refund_amount"]) == ("REFUNDED", 49900)
    await assert_sent(school.engine, "refund-partial", count=2)
    await school.verify()


async def reserve(school: School, cohort: UUID, number: int = 2, **more: Any) -> tuple[UUID, str]:
    """Return the block and the token of its link."""
    async with school.transaction() as tx:
        block = await seats.reserve(
            tx, cohort, company="Acme", contact_email="hr@acme.example", number=number, **more, actor="op"
        )
    link = "select data ->> 'link' from onceward.messages where template = 'company-seats' order by id desc limit 1"
    return block["id"], (await school.db.fetchval(link)).rsplit("/", 1)[-1]


async def take(school: School, token: str, name: str) -> sign_in.StudentSession:
    """Ask for a seat, and use the link of the mail."""
    email = f"{name}@acme.example"
    async with school.transaction() as tx:
        user = await users.register(tx, email=email, name=name, confirmed=False)
    await sign_in.confirm_for_seat(school.engine, school.organization, token, user["id"], email)
    link = (
        "select data ->> 'link' from onceward.messages where template = 'enrollment-confirm' order by id desc limit 1"
    )
    return await sign_in.redeem(school.engine, (await school.db.fetchval(link)).rsplit("/", 1)[-1])


@pytest.mark.acceptance("companySeats")
async def test_people_of_a_company_take_its_seats_and_a_seat_stays_with_the_company(school: School) -> None:
    cohort = await school.cohort(capacity=3)
    with pytest.raises(CohortFull, match="fewer than 4"):
        await reserve(school, cohort, 4)
    block, token = await reserve(school, cohort, email_domain="@acme.example")
    assert await school.free(cohort) == 1
    with pytest.raises(SeatsTaken, match=r"address at acme\.example"):
        async with school.transaction() as tx:
            user = await users.register(tx, email="eve@example.org", name="Eve", confirmed=False)
        await sign_in.confirm_for_seat(school.engine, school.organization, token, user["id"], "eve@example.org")
    one, two = [await take(school, token, name) for name in ("ada", "bob")]
    assert one.enrollment_id is not None
    assert two.enrollment_id is not None
    assert await school.free(cohort) == 1, "the places were sold before"
    with pytest.raises(SeatsTaken, match="all seats of Acme are taken"):
        await take(school, token, "late")
    await school.verify()

    await school.refund(one.enrollment_id, reason="left the company")
    assert (await school.status(one.enrollment_id), await school.free(cohort)) == ("REFUNDED", 1)
    other = await school.cohort(name="Next")
    async with school.transaction() as tx:
        await move(tx, two.enrollment_id, other, actor="op", reason="ill")
    again = await take(school, token, "carol")
    assert again.enrollment_id is not None
    await school.verify()

    await school.db.execute("update learning.seat_blocks set link_sent_at = now() - interval '1 hour'")
    async with school.transaction() as tx:
        await seats.send_again(tx, block, actor="op")
        assert await seats.end(tx, block, actor="op") == 1
        with pytest.raises(LearningError, match="have ended"):
            await seats.end(tx, block, actor="op")
    assert await school.free(cohort) == 2
    await school.refund(again.enrollment_id)
    assert await school.free(cohort) == 3, "no company has the seat any more"
    await drain(school.engine)
    await school.verify()


@pytest.mark.acceptance("featuresThatMeet")
async def test_who_takes_a_seat_of_the_company_while_paying_gets_the_money_back_and_the_code_is_free(
    school: School,
) -> None:
    cohort, discount = await school.cohort(), await code(school, most_uses=1)
    block, _ = await reserve(school, cohort, 1)
    ada = await school.student("Ada")
    session = await start(school, cohort, ada)
    async with school.transaction() as tx:
        enrollment = await seats.take(tx, block, ada)
    school.stripe.pay(session)
    await school.deliver()
    assert (await school.payment(session))["decision"] == "returned"
    assert await uses(school, discount) == (0, 0)
    assert [each["amount"] for each in school.stripe.books.refunds.values()] == [39920]
    with pytest.raises(LearningError, match="nothing remains"):
        async with school.transaction() as tx:
            await refund_part(tx, enrollment, Money(100, "EUR"), reason="ill", actor="op")
    await school.refund(enrollment)
    assert (await school.status(enrollment), await school.free(cohort)) == ("REFUNDED", 9)
    # The same person pays with the code after all; a part goes back, and the bank takes the rest.
    session = await start(school, cohort, ada)
    school.stripe.pay(session)
    await school.deliver()
    bought = await school.enrolled(session)
    assert bought is not None
    async with school.transaction() as tx:
        await refund_part(tx, bought, Money(9920, "EUR"), reason="ill", actor="op")
    await school.deliver()
    charge = (await school.payment(session))["charge"]
    school.stripe.close_dispute(school.stripe.open_dispute(charge, amount=30000)["id"], won=False)
    await school.deliver()
    row = await school.row("enrollments", id=bought)
    assert (row["status"], row["refund_amount"], row["partial_refund"]) == ("REFUNDED", 39920, 9920)
    assert await uses(school, discount) == (0, 1)
    await school.verify()


async def test_two_people_who_take_the_last_seat_at_once_are_one_too_many(school: School) -> None:
    cohort = await school.cohort()
    block, _ = await reserve(school, cohort, 1)

    async def sit(name: str) -> UUID:
        student = await school.student(name)
        async with school.transaction() as tx:
            return await seats.take(tx, block, student)

    answers = await asyncio.gather(sit("Ada"), sit("Bob"), return_exceptions=True)
    assert [type(each) for each in sorted(answers, key=str)].count(SeatsTaken) == 1
    assert await school.count("seats", "enrollment_id is not null") == 1
    await school.verify()
