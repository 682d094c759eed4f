"""Extensions that students buy, and students who move."""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID, uuid4

import pytest

from onceward.testing import assert_published
from onceward_apps.learning import checkout, link_tokens
from onceward_apps.learning.enrollments import move
from onceward_apps.learning.errors import CohortFull, LearningError
from onceward_apps.learning.link_tokens import enrollment_token, read_enrollment_token
from tests.learning.school import PRICE, School
from tests.learning.test_refunds import refund_at_stripe


async def extend(school: School, enrollment: UUID) -> str:
    started = await checkout.start_extension(school.engine, school.organization, enrollment_id=enrollment)
    session = started.url.rsplit("/", 1)[-1]
    school.stripe.pay(session)
    await school.deliver()
    return session


async def test_an_extension_bought_in_time_is_applied_when_the_access_ends(school: School) -> None:
    enrollment = await school.enrol(await school.cohort(extension_price=9900))
    before = await school.row("enrollments", id=enrollment)
    await extend(school, enrollment)
    await extend(school, enrollment)
    rows = await school.db.fetch("select * from learning.access_extensions order by extends_until")
    assert [row["extends_until"] - before["access_expires_at"] for row in rows] == [
        timedelta(days=30),
        timedelta(days=60),
    ]
    assert await school.payments("subject_type = 'extension' and received = 9900") == 2
    await school.later(days=30 + 28 + 30 + 1)
    await school.schedule("learning.access_expiry")
    after = await school.row("enrollments", id=enrollment)
    assert after["access_expires_at"] - before["access_expires_at"] == timedelta(days=60)
    assert await school.count("access_extensions", "status = 'APPLIED'") == 2
    await school.verify()


async def test_an_extension_after_the_end_opens_the_access_again(school: School) -> None:
    enrollment = await school.enrol(await school.cohort(extension_price=9900))
    await school.later(days=100)
    await school.schedule("learning.access_expiry")
    assert await school.status(enrollment) == "EXPIRED"
    await extend(school, enrollment)
    row = await school.row("enrollments", id=enrollment)
    assert row["status"] == "ACTIVE"
    assert row["access_revoked_at"] is None
    changes = await assert_published(school.engine, "enrollment.updated")
    assert [change.data["change"] for change in changes] == ["expired", "reactivated"]
    await school.verify()


async def test_a_refunded_extension_is_not_applied(school: School) -> None:
    enrollment = await school.enrol(await school.cohort(extension_price=9900))
    session = await extend(school, enrollment)
    refund_at_stripe(school, school.stripe.books.sessions[session]["payment_intent"])
    await school.deliver()
    assert (await school.row("access_extensions", enrollment_id=enrollment))["status"] == "REVOKED"
    assert await school.status(enrollment) == "ACTIVE"


async def test_a_signed_link_is_valid_for_one_enrolment_and_purpose(
    school: School, monkeypatch: pytest.MonkeyPatch
) -> None:
    enrollment = await school.enrol(await school.cohort())
    async with school.transaction() as tx:
        token = await enrollment_token(tx, "extension", enrollment)
        assert await read_enrollment_token(tx, "extension", token) == enrollment
        other = f"{uuid4()}.{token.partition('.')[2]}"
        for wrong in (other, token[:-1], token + "x", "", str(enrollment), "x.y"):
            assert await read_enrollment_token(tx, "extension", wrong) is None
        assert await read_enrollment_token(tx, "survey", token) is None
        later = token.replace(token.split(".")[1], "99999999999")
        assert await read_enrollment_token(tx, "extension", later) is None, "the expiry is signed"
    monkeypatch.setattr(link_tokens, "LINK_DAYS", 0)
    async with school.transaction() as tx:
        expired = await enrollment_token(tx, "extension", enrollment)
        assert await read_enrollment_token(tx, "extension", expired) is None, "links expire"
    elsewhere = await school.add_organization("elsewhere")
    async with school.engine.transaction(organization=elsewhere) as tx:
        assert await read_enrollment_token(tx, "extension", token) is None


# -- moving ------------------------------------------------------------------------------------------------------------


async def test_a_student_moves_to_another_cohort_with_a_free_place(school: School) -> None:
    here, there = await school.cohort(capacity=1), await school.cohort(capacity=1)
    enrollment = await school.enrol(here)
    async with school.transaction() as tx:
        await move(tx, enrollment, there, actor="ops", reason="ill")
    assert (await school.free(here), await school.free(there)) == (1, 0)
    row = await school.row("enrollments", id=enrollment)
    assert (row["cohort_id"], row["moved_from"], row["amount_paid"]) == (there, here, PRICE)
    second = await school.enrol(here)
    async with school.transaction() as tx:
        with pytest.raises(CohortFull):
            await move(tx, second, there, actor="ops", reason="ill")
    async with school.transaction() as tx:
        with pytest.raises(LearningError):
            await move(tx, uuid4(), there, actor="ops", reason="ill")
    await school.verify()
