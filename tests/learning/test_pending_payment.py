"""While a payment takes days, such as a bank debit, the person cannot start another checkout for the same thing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from uuid import UUID

import pytest

from onceward.integrations.stripe import StripeSimulator
from onceward.payments.due import enqueue_due
from onceward.testing import drain
from onceward.trust.erase import erase
from onceward_apps.learning.errors import AlreadyEnrolled, PaymentPending
from onceward_apps.learning.store import checkouts
from tests.learning.school import PRICE, School
from tests.learning.server import PUBLIC, Server, running
from tests.learning.test_changed_payment import refunded, start_extension
from tests.learning.test_instalments import ERASERS, cohort_with_instalments
from tests.queries import until_query

REQUESTS = 6


async def debit(school: School, cohort: UUID, student: UUID) -> str:
    """Pay by bank debit. Returns the session."""
    session = await school.start(cohort, student)
    school.stripe.pay_later(session)
    await school.deliver()
    return session


@pytest.mark.parametrize("instalments", [False, True])
async def test_a_checkout_is_refused_while_a_debit_is_pending(school: School, instalments: bool) -> None:
    cohort, student = await cohort_with_instalments(school), await school.student()
    session = await debit(school, cohort, student)
    free = await school.free(cohort)
    with pytest.raises(PaymentPending, match=r"your payment for .* is being processed: if it fails, you can pay again"):
        await school.start(cohort, student, instalments=instalments)
    assert (await school.count("checkouts"), await school.free(cohort)) == (1, free), "nothing was held"
    assert list(school.stripe.books.sessions) == [session]
    school.stripe.end_late_payment(session, succeeded=True)
    await school.deliver()
    assert await school.enrolled(session) is not None
    with pytest.raises(AlreadyEnrolled):
        await school.start(cohort, student)
    assert refunded(school) == []
    await school.verify()


@pytest.mark.parametrize("succeeded", [True, False])
async def test_who_pays_again_without_signing_in_keeps_one_payment(school: School, succeeded: bool) -> None:
    """A stranger must not learn that a payment is pending, so nothing stops a second one. The later money goes back."""
    cohort, student = await school.cohort(), await school.student()
    session = await debit(school, cohort, student)
    again = await school.pay_as_stranger(cohort, student)
    await school.deliver()
    school.stripe.end_late_payment(session, succeeded=succeeded)
    await school.deliver()
    assert (await school.enrolled(again) is not None, await school.enrolled(session)) == (True, None)
    assert refunded(school) == ([PRICE] if succeeded else [])
    assert (await school.count("enrollments"), await school.count("checkouts", "status <> 'ended'")) == (1, 0)
    await school.lose_holds()
    assert await school.free(cohort) == 9
    await school.verify()


async def test_a_second_page_cannot_be_paid_after_the_debit_has_arrived(school: School) -> None:
    cohort, student = await school.cohort(), await school.student()
    session = await debit(school, cohort, student)
    again = await school.start(cohort, student, is_known=False)
    school.stripe.end_late_payment(session, succeeded=True)
    await school.deliver()
    assert school.stripe.pay(again)["status"] == "expired"
    assert (await school.enrolled(session) is not None, refunded(school), await school.free(cohort)) == (True, [], 9)
    await school.verify()


async def test_a_checkout_starts_after_the_debit_has_failed(school: School) -> None:
    cohort, student = await school.cohort(capacity=1), await school.student()
    session = await debit(school, cohort, student)
    school.stripe.end_late_payment(session, succeeded=False)
    await school.deliver()
    again = await school.start(cohort, student)
    assert again != session
    school.stripe.pay(again)
    await school.deliver()
    assert await school.enrolled(again) is not None
    assert refunded(school) == []
    await school.verify()


async def test_other_people_and_other_cohorts_are_not_refused(school: School) -> None:
    cohort, student = await school.cohort(), await school.student()
    await debit(school, cohort, student)
    await school.start(cohort, await school.student())
    await school.start(await school.cohort(name="Other"), student)
    assert await school.count("checkouts", "status = 'started'") == 2


async def test_requests_at_the_same_moment_are_all_refused(school: School) -> None:
    cohort, student = await cohort_with_instalments(school), await school.student()
    await debit(school, cohort, student)
    starts = [school.start(cohort, student, instalments=bool(number % 2)) for number in range(REQUESTS)]
    results = await asyncio.gather(*starts, return_exceptions=True)
    assert [type(each) for each in results] == [PaymentPending] * REQUESTS
    assert await school.count("checkouts") == 1


async def test_a_request_that_waits_for_the_webhook_of_the_debit_is_refused(school: School) -> None:
    """The request for the other way to pay would replace the checkout whose payment begins at this moment."""
    cohort, student = await cohort_with_instalments(school), await school.student()
    await school.start(cohort, student)
    async with school.transaction() as tx:
        checkout = await school.row("checkouts", user_id=student)
        await checkouts.lock(tx, checkout["id"])
        await checkouts.wait(tx, checkout["id"])
        request = asyncio.create_task(school.start(cohort, student, instalments=True))
        await until_query(
            school.db,
            "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'",
            1,
        )
    with pytest.raises(PaymentPending):
        await request
    assert await school.count("checkouts", "status = 'waiting'") == await school.count("checkouts") == 1


async def test_an_extension_is_refused_while_its_debit_is_pending(school: School) -> None:
    cohort, student = await school.cohort(extension_price=9900), await school.student()
    enrollment = await school.enrol(cohort, student)
    session = await start_extension(school, enrollment)
    school.stripe.pay_later(session)
    await school.deliver()
    with pytest.raises(PaymentPending, match="your payment for more access to"):
        await start_extension(school, enrollment)
    school.stripe.end_late_payment(session, succeeded=True)
    await school.deliver()
    assert await school.count("access_extensions") == 1
    assert await start_extension(school, enrollment) != session, "a second extension can be bought afterwards"


async def test_a_cohort_that_has_become_free_waits_for_the_debit_too(school: School) -> None:
    cohort, student = await school.cohort(), await school.student()
    await debit(school, cohort, student)
    await school.db.execute("update learning.cohorts set price = 0")
    with pytest.raises(PaymentPending):
        await school.start(cohort, student)


async def test_a_debit_is_asked_about_until_it_has_an_end(school: School) -> None:
    cohort, student = await school.cohort(starts_in_days=60), await school.student()
    session = await debit(school, cohort, student)
    school.stripe.end_late_payment(session, succeeded=True)  # and the webhook is lost
    await school.later(days=22)
    await enqueue_due(school.db, school.engine.waker)
    await drain(school.engine)
    assert await school.enrolled(session) is not None


async def test_a_debit_of_a_person_who_was_erased_meanwhile_goes_back(school: School) -> None:
    cohort, student = await school.cohort(capacity=1), await school.student("Ada")
    session = await debit(school, cohort, student)
    await erase(school.db, "ada@example.org", ERASERS, organization=school.organization, actor="test")
    school.stripe.end_late_payment(session, succeeded=True)
    await school.deliver()
    assert (await school.count("enrollments"), refunded(school)) == (0, [PRICE])
    await school.lose_holds()
    await school.enrol(cohort)  # the place is free
    await school.verify()


async def test_a_person_who_was_erased_by_another_address_is_not_enrolled(school: School) -> None:
    """The payment has the address that the person had when they paid."""
    cohort, student = await school.cohort(), await school.student("Ada")
    session = await debit(school, cohort, student)
    await school.db.execute("update learning.users set email = 'new@example.org' where id = $1", student)
    await erase(school.db, "new@example.org", ERASERS, organization=school.organization, actor="test")
    school.stripe.end_late_payment(session, succeeded=True)
    await school.deliver()
    assert (await school.count("enrollments"), refunded(school)) == (0, [PRICE])
    await school.verify()


@pytest.fixture
async def stripe() -> AsyncIterator[StripeSimulator]:
    made = StripeSimulator(retry_delays_s=(0.1,))
    await made.start()
    yield made
    await made.stop()


async def test_the_api_and_the_pages_say_that_a_payment_is_being_processed(
    database_url: str, tmp_path: Path, stripe: StripeSimulator
) -> None:
    async with running(database_url, tmp_path, stripe=stripe) as server:
        await _check_faces(server, stripe)


async def _check_faces(server: Server, stripe: StripeSimulator) -> None:
    cohort = await server.cohort("Rust", price=49900)
    path, body = f"{PUBLIC}/cohorts/{cohort}/checkout", {"email": "ada@example.org", "name": "Ada"}
    status, answer = await server.call("POST", path, body)
    assert status == 201, answer
    session = answer["url"].rsplit("/", 1)[-1]
    signed_in = await server.sign_in("Ada")
    shown = "Your payment for Rust is being processed. If it fails, you can pay again."
    pages = ("/learn/home", f"/learn/cohorts/{cohort}")
    for each in pages:
        assert shown not in (await server.call("GET", each, cookie=signed_in))[1]

    stripe.pay_later(session)
    await until_query(server.db, "select status from learning.checkouts", "waiting")
    status, answer = await server.call("POST", path, body)
    assert (status, answer["url"].startswith(stripe.url)) == (201, True)  # a stranger does not learn that Ada pays
    status, problem = await server.call("POST", path, body, cookie=signed_in)
    assert (status, problem["code"], problem["status"]) == (409, "payment_pending", 409)
    assert problem["detail"] == "your payment for Rust is being processed: if it fails, you can pay again"
    for each in pages:
        _, text = await server.call("GET", each, cookie=signed_in)
        assert shown in text
        assert 'id="enrol"' not in text
    _, stranger = await server.call("GET", pages[1])
    assert shown not in stranger
    assert 'id="enrol"' in stranger

    stripe.end_late_payment(session, succeeded=False)
    await until_query(server.db, "select count(*) from learning.checkouts where status = 'ended'", 1)
    for each in pages:
        assert shown not in (await server.call("GET", each, cookie=signed_in))[1]
    status, answer = await server.call("POST", path, body)
    assert (status, answer.keys()) == (201, {"url"})

    stripe.pay(answer["url"].rsplit("/", 1)[-1])
    await until_query(server.db, "select count(*) from learning.enrollments where status = 'ACTIVE'", 1)
    new = {"email": "grace@example.org", "name": "Grace"}
    mails = "select count(*) from onceward.messages where template = 'student-sign-in'"
    before = await server.db.fetchval(mails)
    for each in (body, new):  # a stranger does not learn that Ada is enrolled and Grace is not
        status, answer = await server.call("POST", path, each)
        assert (status, answer.keys(), answer["url"].startswith(stripe.url)) == (201, {"url"}, True)
    assert await server.db.fetchval(mails) == before + 1  # Ada learns how to sign in
    status, answer = await server.call("POST", path, body, cookie=signed_in)
    assert (status, answer["url"].endswith("/learn/home")) == (201, True)
