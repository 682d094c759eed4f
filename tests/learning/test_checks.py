"""`onceward verify` finds data of the learning platform that contradicts itself."""

from __future__ import annotations

import pytest

from onceward_apps.learning.checks import CHECKS
from tests.learning.school import School

BROKEN = {
    "learning.a_payment_bought_one_thing": "update learning.enrollments set amount_paid = amount_paid + 1",
    "learning.an_enrolment_has_one_place": "update learning.enrollments set claim_id = null",
    "learning.invites_match_their_entries": (
        "insert into learning.waitlist_entries (organization_id, user_id, cohort_id, status)"
        " select organization_id, user_id, cohort_id, 'INVITED' from learning.enrollments"
    ),
    "learning.refunds_add_up": "update learning.enrollments set status = 'REFUNDED', claim_id = null",
    "learning.cancelled_cohorts_are_empty": (
        "update learning.cohorts set status = 'CANCELLED', cancelled_at = now() - interval '2 days'"
    ),
    "learning.the_history_of_a_cohort_is_complete": "update learning.cohorts set status = 'COMPLETED'",
    "learning.refunded_enrolments_have_no_certificate": (
        "with refunded as (update learning.enrollments set status = 'REFUNDED' returning *)"
        " insert into learning.certificates"
        " (organization_id, enrollment_id, user_id, cohort_id, credential_id, url, snapshot)"
        " select organization_id, id, user_id, cohort_id, 'OW-1', '/', '{}' from refunded"
    ),
}


@pytest.mark.parametrize("name", BROKEN)
async def test_a_contradiction_is_found(school: School, name: str) -> None:
    await school.enrol(await school.cohort())
    await school.verify()
    await school.db.execute(BROKEN[name])
    check = next(check for check in CHECKS if check.name == name)
    async with school.db.acquire() as conn:
        assert await check.run(conn), name


def test_every_check_is_tried() -> None:
    assert {check.name for check in CHECKS} == set(BROKEN)
