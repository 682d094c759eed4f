"""Extensions that students buy, instalments of subscriptions, and the end of a subscription."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest

from onceward.testing import assert_published, drain
from onceward_apps.learning import checkout, link_tokens
from onceward_apps.learning.enrollments import move
from onceward_apps.learning.errors import CohortFull, LearningError, NotFound
from onceward_apps.learning.link_tokens import enrollment_token, read_enrollment_token
from onceward_apps.learning.refund_requests import refund_enrollment
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
    assert await school.count("payments", "purpose = 'extension' and amount = 9900") == 2
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


async def test_an_extension_of_a_refunded_or_unknown_enrolment_is_refunded(school: School) -> None:
    enrollment = await school.enrol(await school.cohort(extension_price=9900))
    started = await checkout.start_extension(school.engine, school.organization, enrollment_id=enrollment)
    async with school.transaction() as tx:
        await refund_enrollment(tx, enrollment, reason="x", actor="ops")
    await school.deliver()
    school.stripe.pay(started.url.rsplit("/", 1)[-1])
    await school.pay_without_hold(
        uuid4(), uuid4(), amount=9900, metadata={"kind": "extension", "enrollmentId": str(uuid4())}
    )
    await school.deliver()
    assert await school.count("payments", "reason = 'enrollment_refunded' and refunded_amount = amount") == 1
    assert await school.count("payments", "reason = 'enrollment_not_found' and refunded_amount = amount") == 1
    with pytest.raises(NotFound):
        await checkout.start_extension(school.engine, school.organization, enrollment_id=enrollment)
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


# -- subscriptions -----------------------------------------------------------------------------------------------------


async def subscribe(school: School, cohort: UUID, student: UUID) -> UUID:
    metadata = {"app": "learning", "cohortId": str(cohort), "userId": str(student)}
    thing: dict[str, Any] = {
        "id": f"cs_{uuid4().hex}",
        "payment_status": "paid",
        "amount_total": 10000,
        "currency": "eur",
    }
    result = await school.send("checkout.session.completed", {**thing, "subscription": "sub_1", "metadata": metadata})
    return UUID(result["enrollmentId"])


def invoice(number: int, end: int, **more: Any) -> dict[str, Any]:
    lines = {"data": [{"period": {"end": end}}]}
    thing = {"id": f"in_{number}", "object": "invoice", "subscription": "sub_1", "payment_intent": f"pi_{number}"}
    return {**thing, "amount_paid": 10000, "currency": "eur", "lines": lines, **more}


@pytest.mark.acceptance("processInvoicePaymentSucceeded")
async def test_instalments_are_recorded_once_and_extend_the_access(school: School) -> None:
    enrollment = await subscribe(school, await school.cohort(), await school.student())
    end = int((await school.row("enrollments", id=enrollment))["access_expires_at"].timestamp())
    for number, until in ((1, end - 5), (2, end + 86400), (2, end + 86400)):
        assert (await school.send("invoice.payment_succeeded", invoice(number, until)))["status"] == "SUCCESS"
    assert await school.count("instalments") == await school.count("payments", "purpose = 'instalment'") == 2
    row = await school.row("enrollments", id=enrollment)
    assert row["access_expires_at"].timestamp() == end + 86400
    await school.verify()


async def test_an_invoice_in_the_newer_shape_is_understood(school: School) -> None:
    enrollment = await subscribe(school, await school.cohort(), await school.student())
    newer = invoice(1, 0, subscription=None)
    newer["parent"] = {"subscription_details": {"subscription": "sub_1", "metadata": {"app": "learning"}}}
    assert await school.send("invoice.payment_succeeded", newer) == {
        "status": "SUCCESS",
        "enrollmentId": str(enrollment),
    }


async def test_an_invoice_before_its_enrolment_waits_and_an_orphan_is_refunded(school: School) -> None:
    cohort, student = await school.cohort(), await school.student()
    metadata = {"app": "learning", "cohortId": str(cohort), "userId": str(student)}
    await school.send("invoice.payment_succeeded", invoice(1, 0, subscription_details={"metadata": metadata}))
    assert await school.count("payments") == 0
    await subscribe(school, cohort, student)
    await school.db.execute("update onceward.work set sort_at = now()")
    await drain(school.engine)
    assert await school.count("payments", "purpose = 'instalment'") == 1

    orphan = {"app": "learning", "cohortId": str(cohort), "userId": str(await school.student())}
    thing = invoice(2, 0, subscription="sub_2", subscription_details={"metadata": orphan})
    await school.send("invoice.payment_succeeded", thing)
    for _ in range(5):
        await school.db.execute("update onceward.work set sort_at = now()")
        await drain(school.engine, "events")
    assert await school.count("payments", "reason = 'enrollment_not_found'") == 1
    assert "PAYMENT_REFUSED" in await school.notices()


@pytest.mark.acceptance("processSubscriptionUpdated", "processSubscriptionDeleted")
async def test_a_subscription_is_mirrored_and_its_end_ends_the_access(school: School) -> None:
    enrollment = await subscribe(school, await school.cohort(), await school.student())
    thing: dict[str, Any] = {"id": "sub_1", "object": "subscription", "status": "past_due"}
    thing["items"] = {"data": [{"price": {"id": "price_9"}, "current_period_end": 1900000000}]}
    assert await school.send("customer.subscription.updated", thing) == {
        "status": "SUCCESS",
        "subscription": "past_due",
    }
    row = await school.row("subscriptions", stripe_subscription_id="sub_1")
    assert (row["status"], row["plan"], row["enrollment_id"]) == ("past_due", "price_9", enrollment)
    stale = {"id": "evt_old", "object": "event", "type": "customer.subscription.updated", "created": 1}
    await school.post({**stale, "data": {"object": {**thing, "status": "active"}}})
    await drain(school.engine)
    assert (await school.row("subscriptions", stripe_subscription_id="sub_1"))["status"] == "past_due"

    await school.send("customer.subscription.deleted", {**thing, "status": "canceled", "ended_at": 1800000000})
    assert (await school.row("enrollments", id=enrollment))["access_expires_at"].timestamp() == 1900000000
    assert (await school.row("subscriptions", stripe_subscription_id="sub_1"))["ended_at"] is not None
    foreign = {**thing, "id": "sub_foreign"}
    assert await school.send("customer.subscription.updated", foreign) == {"status": "not_ours"}


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
