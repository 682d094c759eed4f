"""Races for the last place, each with a twin that shows that the race exists without the lock."""

from __future__ import annotations

import asyncio
from typing import Any
from uuid import UUID, uuid4

import pytest

from onceward.capacity import reap
from onceward.integrations.stripe.payment_reports import session_report
from onceward.payments.reports import Origin, apply_fact
from onceward_apps.learning import app as learning
from onceward_apps.learning import waitlist
from onceward_apps.learning.cohorts import set_capacity, set_status
from onceward_apps.learning.errors import CohortFull, LearningError, PaymentUnavailable
from onceward_apps.learning.refund_requests import retry_refund
from onceward_apps.learning.store import checkouts
from tests.learning.school import SOURCE, School
from tests.learning.test_waitlist import token

BUYERS = 6


async def paid_pages(school: School, cohort: UUID, students: list[UUID]) -> list[str]:
    """Let each person pay on a page of a cohort with one place, which nobody holds any more. Nothing is reported yet."""
    sessions = [await school.pay_as_stranger(cohort, each) for each in students]
    await school.lose_holds()
    await reap(school.db)
    async with school.transaction() as tx:
        await set_capacity(tx, cohort, 1, actor="test")
    return sessions


async def report(school: School, session: str) -> str:
    """Apply what Stripe says about a page, as its webhook does."""
    report = session_report(school.stripe.books.sessions[session])
    async with school.engine.transaction() as tx:
        return await apply_fact(tx, Origin(SOURCE), report)


@pytest.mark.acceptance("updateEnrollmentCount")
async def test_the_last_place_is_sold_once_however_many_pay(school: School) -> None:
    cohort = await school.cohort(capacity=BUYERS)
    students = [await school.student() for _ in range(BUYERS)]
    sessions = await paid_pages(school, cohort, students)
    results = await asyncio.gather(*[report(school, each) for each in sessions])
    assert sorted(results) == ["paid"] + ["returned"] * (BUYERS - 1)
    assert await school.count("enrollments") == 1
    assert await school.payments("decided_reason = 'cohort_full'") == BUYERS - 1
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
    cohort, student = await school.cohort(), await school.student()
    first = await school.pay_as_stranger(cohort, student)
    await school.db.execute("update learning.checkouts set status = 'waiting'")  # as if it took days
    second = await school.pay_as_stranger(cohort, student)
    results = await asyncio.gather(report(school, first), report(school, second))
    assert sorted(results) == ["paid", "returned"]
    assert await school.payments("decided_reason = 'already_enrolled'") == 1
    assert (await school.count("enrollments"), await school.free(cohort)) == (1, 9)
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
            assert await checkouts.started(tx, student, cohort, "") is None
            await both_looked.wait()
            await checkouts.add(
                tx, checkout_id=uuid4(), user_id=student, cohort_id=cohort, invite_id=None, claim_id=None, browser=""
            )

    results = await asyncio.gather(start(), start(), return_exceptions=True)
    assert sorted(type(result).__name__ for result in results) == ["NoneType", "UniqueViolationError"]


async def test_a_request_that_stopped_before_its_page_opened_is_repeated_with_the_same_checkout(
    school: School, monkeypatch: pytest.MonkeyPatch
) -> None:
    cohort, student = await school.cohort(), await school.student()

    async def stop(*_: Any, **__: Any) -> Any:
        raise ConnectionError("the process stops here")

    with monkeypatch.context() as patched:
        patched.setattr(learning.payments, "visit", stop)
        with pytest.raises(ConnectionError):
            await school.start(cohort, student)
    await school.start(cohort, student)
    assert (await school.count("checkouts"), await school.free(cohort)) == (1, 9)


async def test_a_page_that_cannot_be_opened_for_a_second_request_leaves_the_checkout_of_the_first(
    school: School,
) -> None:
    cohort, student = await school.cohort(), await school.student()
    page = await school.start(cohort, student)
    await school.db.execute("update onceward.payments set page_url = null")  # the first request is not done yet
    school.stripe.drop_before_send(10)
    with pytest.raises(PaymentUnavailable):
        await school.start(cohort, student)
    school.stripe.clear_faults()
    assert await school.start(cohort, student) == page
    assert (await school.count("checkouts"), await school.free(cohort)) == (1, 9)


async def failed_refund(school: School) -> UUID:
    """A refund that the bank returned, with its payment not refunded."""
    enrollment = await school.enrol(await school.cohort())
    school.stripe.books.next_refund_statuses.append("failed")
    [refund] = await school.refund(enrollment)
    return refund


async def test_two_operators_who_retry_a_refund_at_once_start_one_attempt(school: School) -> None:
    refund = await failed_refund(school)

    async def retry() -> int:
        async with school.transaction() as tx:
            return await retry_refund(tx, refund, actor="ops")

    results = await asyncio.gather(*[retry() for _ in range(4)], return_exceptions=True)
    assert [result for result in results if not isinstance(result, LearningError)] == [2]
    assert await school.refund_state(refund) == ("requested", 2)


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
    for _ in range(4):
        cohort = await school.cohort()
        session = await school.start(cohort, await school.student())
        school.stripe.pay(session)

        async def cancel(cohort: UUID = cohort) -> None:
            async with school.transaction() as tx:
                await set_status(tx, cohort, "CANCELLED", actor="ops")

        await asyncio.gather(report(school, session), cancel())
    await school.deliver()
    assert await school.count("enrollments", "status in ('ACTIVE', 'EXPIRED')") == 0
    assert await school.payments("refunded = received") == await school.payments() == 4
    await school.verify()


async def test_the_place_of_an_invite_is_not_sold_to_another_person(school: School) -> None:
    cohort = await school.cohort(capacity=1)
    other = await school.start(cohort, await school.student())
    await school.lose_holds()
    invited = await school.student()
    async with school.transaction() as tx:
        await waitlist.join(tx, cohort, invited)
        await waitlist.promote(tx, cohort)
    with pytest.raises(LearningError):
        await school.start(cohort, await school.student())
    school.stripe.pay(other)
    await school.deliver()
    assert (await school.payment(other))["decided_reason"] == "cohort_full"
    session = await school.start(cohort, invited, invite=await token(school, invited))
    school.stripe.pay(session)
    await school.deliver()
    assert await school.enrolled(session) is not None
    await school.verify()
