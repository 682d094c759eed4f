"""A cancelled cohort: refunds of the remainder, one mail a person, failures reported, nobody invited."""

from __future__ import annotations

import time
from uuid import UUID

import pytest

from onceward.testing import assert_published, assert_sent, drain
from onceward_apps.learning import app as learning
from onceward_apps.learning import waitlist
from onceward_apps.learning.app import LearningSettings
from onceward_apps.learning.errors import InvalidRequest, InvalidTransition, NotFound
from tests.learning.school import PRICE, School
from tests.learning.test_refunds import intent, refund_at_stripe


@pytest.fixture(autouse=True)
def fast() -> object:
    """Refund at 100 per second, so that tests do not wait; one test measures the rate."""
    learning.use_settings(LearningSettings(refunds_per_second=100))
    yield
    learning.use_settings(LearningSettings())


@pytest.mark.acceptance("autoRefundOnCohortCancellation")
async def test_cancelling_refunds_everybody_once_and_closes_everything(school: School) -> None:
    cohort = await school.cohort(capacity=3)
    enrollments = [await school.enrol(cohort) for _ in range(3)]
    waiting = await school.student("Waiting")
    async with school.transaction() as tx:
        await waitlist.join(tx, cohort, waiting)
    await school.set_status(cohort, "CANCELLED", reason="The instructor is ill")
    assert (await school.row("cohorts", id=cohort))["status"] == "CANCELLED", "the status comes first"
    await school.deliver()

    assert [await school.status(each) for each in enrollments] == ["REFUNDED"] * 3
    assert sorted(refund["amount"] for refund in school.stripe.books.refunds.values()) == [PRICE] * 3
    for refund in school.stripe.books.refunds.values():
        assert refund["metadata"]["cohortCancelled"] == "true"
        assert refund["metadata"]["cancellationReason"] == "The instructor is ill"
    await assert_sent(school.engine, "cohort-cancelled-refund", count=3)
    mails = [template for template, _ in await school.mails()]
    assert "refund-confirmation" not in mails
    assert "waitlist-spot-available" not in mails
    assert "failed-refunds-alert" not in mails
    assert (await school.row("waitlist_entries", user_id=waiting))["status"] == "REMOVED"
    assert (await school.row("cohorts", id=cohort))["refunds_processed"] == 3
    assert len(await assert_published(school.engine, "enrollment.refunded")) == 3
    [event] = await assert_published(school.engine, "cohort.cancelled", count=1)
    assert event.data["cancellationReason"] == "The instructor is ill"
    assert event.data["enrollmentCount"] == 3
    await school.verify()


async def test_only_the_remainder_of_a_partly_refunded_payment_goes_back(school: School) -> None:
    cohort = await school.cohort()
    part, full = [await school.enrol(cohort) for _ in range(2)]
    await school.db.execute("update learning.cohorts set price = 0 where id = $1", cohort)
    free = UUID(await school.start(cohort, await school.student()))
    refund_at_stripe(school, await intent(school, part), 10000)
    refund_at_stripe(school, await intent(school, full))
    await school.deliver()
    await school.set_status(cohort, "CANCELLED")
    await school.deliver()
    ours = [r["amount"] for r in school.stripe.books.refunds.values() if "onceward_refund" in r["metadata"]]
    assert ours == [PRICE - 10000]
    assert {await school.status(each) for each in (part, full, free)} == {"REFUNDED"}
    mails = await assert_sent(school.engine, "cohort-cancelled-refund", count=2)
    assert sorted(mail.data["refundAmount"] for mail in mails) == [0, PRICE - 10000]
    await school.verify()


@pytest.mark.acceptance("autoRefundOnCohortCancellation")
async def test_refunds_that_stripe_refuses_are_collected_in_one_alert(school: School) -> None:
    cohort = await school.cohort()
    good, bad = [await school.enrol(cohort) for _ in range(2)]
    payment = await intent(school, bad)
    next(c for c in school.stripe.books.charges.values() if c["payment_intent"] == payment)["disputed"] = True
    await school.set_status(cohort, "CANCELLED")
    await school.deliver()
    await school.lapse()  # the report waits while refunds are under way
    assert (await school.status(good), await school.status(bad)) == ("REFUNDED", "REFUND_PENDING")
    [alert] = await assert_sent(school.engine, "failed-refunds-alert", to="ops@example.org", count=1)
    assert alert.data["failedCount"] == 1
    assert alert.data["failures"][0]["enrollmentId"] == str(bad)
    assert (await school.row("cohorts", id=cohort))["refunds_processed"] == 1


async def test_a_payment_that_arrives_during_the_cancellation_is_refunded(school: School) -> None:
    cohort = await school.cohort()
    session = await school.start(cohort, await school.student())
    school.stripe.pay(session)
    await school.set_status(cohort, "CANCELLED")
    await school.deliver()
    payment = await school.payment(session)
    assert (payment["decided_reason"], payment["refunded"]) == ("cohort_not_enrollable", PRICE)
    assert await school.count("enrollments") == 0
    await school.verify()


async def test_more_than_one_page_is_refunded(school: School, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("onceward_apps.learning.workflows.PAGE", 2)
    cohort = await school.cohort()
    for _ in range(5):
        await school.enrol(cohort)
    await school.set_status(cohort, "CANCELLED")
    await school.deliver()
    assert await school.count("enrollments", "status = 'REFUNDED'") == 5
    assert len(school.stripe.books.refunds) == 5
    await school.verify()


async def test_a_lost_answer_of_stripe_refunds_once(school: School) -> None:
    cohort = await school.cohort()
    await school.enrol(cohort)
    school.stripe.drop_after_send(1)
    await school.set_status(cohort, "CANCELLED")
    await drain(school.engine)
    await school.lapse()
    assert len(school.stripe.books.refunds) == 1
    assert await school.count("enrollments", "status = 'REFUNDED'") == 1


@pytest.mark.acceptance("autoRefundOnCohortCancellation")
async def test_refunds_keep_the_rate(school: School) -> None:
    learning.use_settings(LearningSettings(refunds_per_second=20))
    cohort = await school.cohort(capacity=20)
    for _ in range(12):
        await school.enrol(cohort)
    await school.set_status(cohort, "CANCELLED")
    started = time.monotonic()
    await drain(school.engine)
    # Twelve starts at 20 a second cannot be over before eleven intervals have passed, however slow the machine is.
    assert time.monotonic() - started >= 11 / 20 * 0.9
    assert len(school.stripe.books.refunds) == 12


@pytest.mark.acceptance("updateCohortStatus")
async def test_only_drawn_changes_of_the_status_are_possible(school: School) -> None:
    cohort = await school.cohort(status="DRAFT")
    with pytest.raises(InvalidTransition, match="allowed is OPEN, CANCELLED"):
        await school.set_status(cohort, "COMPLETED")
    with pytest.raises(InvalidRequest, match="none of"):
        await school.set_status(cohort, "STARTED")  # pyright: ignore[reportArgumentType]
    await school.set_status(cohort, "CANCELLED")
    with pytest.raises(InvalidTransition, match="allowed is nothing"):
        await school.set_status(cohort, "CANCELLED")
    with pytest.raises(NotFound):
        await school.set_status(await school.student(), "OPEN")
    await school.verify()
