"""Races for the last place, each with a twin that shows that the race exists without the lock."""

from __future__ import annotations

import asyncio
from typing import Any
from uuid import UUID

import pytest

from onceward.testing import drain
from onceward_apps.learning import enrolling, waitlist
from onceward_apps.learning.cohorts import set_status
from onceward_apps.learning.enrolling import PaidSession
from onceward_apps.learning.errors import CohortFull, LearningError
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
            return (await enrolling.enrol_paid(tx, paid(cohort, students[number], number)))["status"]

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
            return (await enrolling.enrol_paid(tx, paid(cohort, student, number)))["status"]

    assert sorted(await asyncio.gather(pay(1), pay(2))) == ["REFUNDED", "SUCCESS"]
    assert await school.count("payments", "reason = 'already_enrolled'") == 1
    await school.verify()


async def test_checkouts_that_start_at_once_hold_one_place(school: School) -> None:
    cohort = await school.cohort(capacity=1)
    students = [await school.student() for _ in range(BUYERS)]
    results = await asyncio.gather(*[school.start(cohort, each) for each in students], return_exceptions=True)
    assert sum(isinstance(result, str) for result in results) == 1
    assert sum(isinstance(result, CohortFull) for result in results) == BUYERS - 1


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
                await enrolling.enrol_paid(tx, paid(cohort, student, number))

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
        result = await enrolling.enrol_paid(tx, paid(cohort, await school.student(), 1))
    assert result["status"] == "WAITLISTED"
    async with school.transaction() as tx:
        assert (await enrolling.enrol_paid(tx, paid(cohort, invited, 2)))["status"] == "SUCCESS"
    await school.verify()
