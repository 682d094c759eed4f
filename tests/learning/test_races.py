"""Races for the last place, each with a twin that shows that the race exists without the lock."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest

from onceward.services import Unknown
from onceward.testing import drain
from onceward_apps.learning import checkout, enrollments, waitlist
from onceward_apps.learning.cohorts import set_status
from onceward_apps.learning.enrollments import PaidSession
from onceward_apps.learning.errors import CohortFull, LearningError, PaymentUnavailable
from onceward_apps.learning.refund_requests import fail, refund_enrollment, retry_refund
from onceward_apps.learning.store import payments
from tests.learning.school import PRICE, School

BUYERS = 6


def paid(cohort: UUID, student: UUID, number: int) -> PaidSession:
    return PaidSession(
        id=f"cs_{number}",
        payment_intent=f"pi_{number}",
        amount=PRICE,
        currency="EUR",
        user_id=str(student),
        cohort_id=str(cohort),
    )


@pytest.mark.acceptance("updateEnrollmentCount")
async def test_the_last_place_is_sold_once_however_many_pay(school: School) -> None:
    cohort = await school.cohort(capacity=1)
    students = [await school.student() for _ in range(BUYERS)]

    async def pay(number: int) -> str:
        async with school.transaction() as tx:
            return (await enrollments.enrol_paid(tx, paid(cohort, students[number], number)))["status"]

    results = await asyncio.gather(*[pay(number) for number in range(BUYERS)])
    assert sorted(results) == ["SUCCESS"] + ["WAITLISTED"] * (BUYERS - 1)
    assert await school.count("enrollments") == 1
    assert await school.count("refunds") == BUYERS - 1
    await school.verify()


async def test_twin_counting_rows_instead_of_claiming_oversells(school: School) -> None:
    """The seed counts enrolments and then inserts: two buyers see the same free place."""
    cohort = await school.cohort(capacity=1)
    students = [await school.student() for _ in range(2)]
    both_counted = asyncio.Barrier(2)

    async def pay(student: UUID) -> None:
        async with school.transaction() as tx:
            taken: Any = await tx.fetchval("select count(*) from learning.enrollments where cohort_id = $1", cohort)
            await both_counted.wait()
            if taken < 1:
                await tx.execute(
                    "insert into learning.enrollments (user_id, cohort_id, amount_paid, currency, access_expires_at)"
                    " values ($1, $2, 0, 'EUR', now())",
                    student,
                    cohort,
                )

    await asyncio.gather(*[pay(student) for student in students])
    assert await school.count("enrollments") == 2, "without the claim both got the last place"


async def test_two_payments_of_one_person_enrol_once_and_refund_once(school: School) -> None:
    cohort = await school.cohort()
    student = await school.student()

    async def pay(number: int) -> str:
        async with school.transaction() as tx:
            return (await enrollments.enrol_paid(tx, paid(cohort, student, number)))["status"]

    assert sorted(await asyncio.gather(pay(1), pay(2))) == ["REFUNDED", "SUCCESS"]
    assert await school.count("payments", "reason = 'already_enrolled'") == 1
    await school.verify()


async def test_checkouts_that_start_at_once_hold_one_place(school: School) -> None:
    cohort = await school.cohort(capacity=1)
    students = [await school.student() for _ in range(BUYERS)]
    results = await asyncio.gather(*[school.start(cohort, each) for each in students], return_exceptions=True)
    assert sum(isinstance(result, str) for result in results) == 1
    assert sum(isinstance(result, CohortFull) for result in results) == BUYERS - 1


async def test_one_person_who_starts_at_once_holds_one_place_and_gets_one_page(school: School) -> None:
    cohort = await school.cohort()
    student = await school.student()
    pages = await asyncio.gather(*[school.start(cohort, student) for _ in range(BUYERS)])
    assert len(set(pages)) == len(school.stripe.books.sessions) == 1
    assert (await school.count("checkouts"), await school.free(cohort)) == (1, 9)


async def test_a_person_who_asks_for_both_ways_to_pay_at_once_holds_one_place(school: School) -> None:
    cohort = await school.cohort(instalment_price=9900, instalment_count=6)
    student = await school.student()
    ways = [school.start(cohort, student, instalments=bool(number % 2)) for number in range(BUYERS)]
    await asyncio.gather(*ways, return_exceptions=True)
    assert (await school.count("checkouts", "status = 'started'"), await school.free(cohort)) == (1, 9)


async def test_twin_without_the_lock_of_the_person_only_the_index_prevents_a_second_checkout(school: School) -> None:
    cohort = await school.cohort()
    student = await school.student()
    both_looked = asyncio.Barrier(2)

    async def start() -> None:
        async with school.transaction() as tx:
            minute = timedelta(minutes=1)
            assert await payments.started_checkout(tx, student, cohort, "enrollment", minute) is None
            await both_looked.wait()
            await payments.add_checkout(
                tx,
                checkout_id=uuid4(),
                kind="enrollment",
                user_id=student,
                cohort_id=cohort,
                enrollment_id=None,
                invite_id=None,
                claim_id=None,
                amount=PRICE,
                currency="EUR",
                expires_at=datetime.now(UTC) + minute,
                page_lifetime=minute,
            )

    results = await asyncio.gather(start(), start(), return_exceptions=True)
    assert sorted(type(result).__name__ for result in results) == ["NoneType", "UniqueViolationError"]


async def test_a_request_that_stopped_before_its_page_opened_is_repeated_with_the_same_checkout(
    school: School, monkeypatch: pytest.MonkeyPatch
) -> None:
    cohort = await school.cohort()
    student = await school.student()

    async def stop(*_: Any) -> Any:
        raise ConnectionError("the process stops here")

    with monkeypatch.context() as patched:
        patched.setattr(checkout, "_create_session", stop)
        with pytest.raises(ConnectionError):
            await school.start(cohort, student)
    await school.start(cohort, student)
    assert (await school.count("checkouts"), await school.free(cohort)) == (1, 9)
    # Later the payment service would refuse so short a page: the place of the old checkout is given back.
    await school.db.execute("update learning.checkouts set payment_url = null, page_expires_at = now()")
    await school.start(cohort, student)
    assert (await school.count("checkouts", "status = 'started'"), await school.free(cohort)) == (1, 9)


async def test_a_page_that_cannot_be_opened_for_a_second_request_leaves_the_checkout_of_the_first(
    school: School, monkeypatch: pytest.MonkeyPatch
) -> None:
    cohort = await school.cohort()
    student = await school.student()
    page = await school.start(cohort, student)
    await school.db.execute("update learning.checkouts set payment_url = null")  # the first request is not done yet

    async def refuse(*_: Any) -> Any:
        return Unknown("the key is in use")

    monkeypatch.setattr(checkout, "_create_session", refuse)
    with pytest.raises(PaymentUnavailable):
        await school.start(cohort, student)
    monkeypatch.undo()
    assert await school.start(cohort, student) == page
    assert (await school.count("checkouts"), await school.free(cohort)) == (1, 9)


async def failed_refund(school: School) -> UUID:
    """A refund that failed, with its payment not refunded."""
    enrollment = await school.enrol(await school.cohort())
    async with school.transaction() as tx:
        [refund] = await refund_enrollment(tx, enrollment, reason="ill", actor="ops")
        await fail(tx, refund, "account closed", again=False)
    return refund


async def test_two_operators_who_retry_a_refund_at_once_start_one_attempt(school: School) -> None:
    refund = await failed_refund(school)

    async def retry() -> int:
        async with school.transaction() as tx:
            return await retry_refund(tx, refund, actor="ops")

    results = await asyncio.gather(*[retry() for _ in range(4)], return_exceptions=True)
    assert [result for result in results if not isinstance(result, LearningError)] == [2]
    assert (await school.row("refunds", id=refund))["attempt"] == 2


async def test_twin_a_refund_that_is_read_before_the_lock_looks_failed_to_both(school: School) -> None:
    refund = await failed_refund(school)
    both_read = asyncio.Barrier(2)

    async def retry() -> tuple[str, bool]:
        async with school.transaction() as tx:
            row = await payments.refund(tx, refund)
            await both_read.wait()
            payment = await payments.lock_by_id(tx, row["payment_id"])
            return row["status"], await payments.refund_again(tx, refund, payment["refunded_amount"]) is not None

    assert sorted(await asyncio.gather(retry(), retry())) == [("failed", False), ("failed", True)]


async def test_promotions_at_once_invite_each_person_once_and_never_more_than_places(school: School) -> None:
    cohort = await school.cohort(capacity=2)
    for _ in range(4):
        student = await school.student()
        async with school.transaction() as tx:
            await waitlist.join(tx, cohort, student)

    async def promote() -> int:
        async with school.transaction() as tx:
            return await waitlist.promote(tx, cohort)

    assert sum(await asyncio.gather(*[promote() for _ in range(4)])) == 2
    assert await school.count("waitlist_invites") == 2
    assert await school.count("waitlist_entries", "status = 'INVITED'") == 2
    await school.verify()


async def test_a_payment_and_the_cancellation_at_once_leave_no_active_enrolment(school: School) -> None:
    for number in range(4):
        cohort = await school.cohort()
        student = await school.student()

        async def pay(cohort: UUID = cohort, student: UUID = student, number: int = number) -> None:
            async with school.transaction() as tx:
                await enrollments.enrol_paid(tx, paid(cohort, student, number))

        async def cancel(cohort: UUID = cohort) -> None:
            async with school.transaction() as tx:
                await set_status(tx, cohort, "CANCELLED", actor="ops")

        await asyncio.gather(pay(), cancel())
    await drain(school.engine)
    assert await school.count("enrollments", "status in ('ACTIVE', 'EXPIRED')") == 0
    assert await school.count("refunds") == await school.count("payments") == 4


async def test_the_place_of_an_invite_is_not_sold_to_another_person(school: School) -> None:
    cohort = await school.cohort(capacity=1)
    invited = await school.student()
    async with school.transaction() as tx:
        await waitlist.join(tx, cohort, invited)
        await waitlist.promote(tx, cohort)
    with pytest.raises(LearningError):
        await school.start(cohort, await school.student())
    async with school.transaction() as tx:
        result = await enrollments.enrol_paid(tx, paid(cohort, await school.student(), 1))
    assert result["status"] == "WAITLISTED"
    async with school.transaction() as tx:
        assert (await enrollments.enrol_paid(tx, paid(cohort, invited, 2)))["status"] == "SUCCESS"
    await school.verify()
