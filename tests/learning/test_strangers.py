"""To know an address is not to be the person: what a stranger can do at the forms for visitors."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from onceward.integrations.stripe import StripeSimulator
from onceward.testing import SentMessage, assert_sent, until
from onceward_apps.learning.errors import CohortFull
from onceward_apps.learning.routes import public
from tests.learning.school import School
from tests.learning.server import PUBLIC, Server, running


@pytest.fixture
async def stripe() -> AsyncIterator[StripeSimulator]:
    simulator = StripeSimulator()
    await simulator.start()
    yield simulator
    await simulator.stop()


@pytest.fixture
async def server(database_url: str, tmp_path: Path, stripe: StripeSimulator) -> AsyncIterator[Server]:
    async with running(database_url, tmp_path, stripe=stripe) as made:
        yield made


async def mailed(server: Server, template: str, **more: Any) -> list[SentMessage]:
    assert server.engine is not None
    return await assert_sent(server.engine, template, **more)


async def pay(server: Server, cohort: UUID, name: str, *, browser: str, **more: Any) -> Any:
    body = {"email": f"{name}@example.org", **more}
    cookie = {"Cookie": f"learning_visitor={browser * 20}"}
    status, answer = await server.call("POST", f"{PUBLIC}/cohorts/{cohort}/checkout", body, **cookie)
    return answer["url"] if status == 201 else answer["code"]


async def test_a_stranger_neither_sees_nor_replaces_the_payment_page_of_a_person(school: School) -> None:
    cohort = await school.cohort(instalment_price=9900, instalment_count=6)
    ada = await school.student("Ada")
    page = await school.start(cohort, ada)
    others = {await school.start(cohort, ada, is_known=False, instalments=way) for way in (False, True)}
    assert page not in others
    assert await school.start(cohort, ada) == page, "the page of the person is as it was"
    school.stripe.pay(page)
    await school.deliver()
    assert await school.enrolled(page) is not None
    assert await school.count("checkouts", "status = 'started'") == 0, "the pages of others are closed"
    await school.verify()


@pytest.mark.acceptance("strangersAtCheckout")
async def test_one_address_holds_few_places_and_others_can_still_pay(server: Server) -> None:
    cohort = await server.cohort(price=49900, max_capacity=10)
    urls = [await pay(server, cohort, f"invented{n}", browser="a") for n in range(8)]
    assert len(set(urls)) == 8
    held = "select count(*) from onceward.capacity_claims where state = 'held'"
    assert await server.db.fetchval(held) == public.HOLDS
    again = [await pay(server, cohort, "ada", browser=each) for each in ("b", "b", "c")]
    assert again[0] == again[1], "a form that is sent twice"
    assert again[2] != again[0], "another browser with the same address"


@pytest.mark.acceptance("strangersAtCheckout")
async def test_many_addresses_hold_at_most_half_of_the_places_and_others_can_pay(school: School) -> None:
    """Each of them is another browser at another client address."""
    cohort = await school.cohort(capacity=9)
    crowd = [await school.student(f"Invented{n}") for n in range(14)]

    async def ask(number: int) -> str:
        return await school.start(cohort, crowd[number], is_known=False, browser=f"browser {number}")

    async def held() -> int:
        return await school.count("checkouts", "browser <> '' and claim_id is not null")

    pages = await asyncio.gather(*(ask(number) for number in range(14)))
    assert (len(set(pages)), await held()) == (14, 4)
    for _ in range(5):
        assert await school.enrol(cohort, await school.student()) is not None
    with pytest.raises(CohortFull):
        await school.start(cohort, await school.student())
    await school.verify()


@pytest.mark.acceptance("strangersAtCheckout")
async def test_a_free_place_is_taken_by_the_link_in_the_mail_and_by_nothing_else(server: Server) -> None:
    cohort = await server.cohort(max_capacity=1)
    for name in ("ada", "ada", "eve"):
        assert (await pay(server, cohort, name, browser="a")).endswith("/learn/check-mail")
    assert await server.db.fetchval("select count(*) from learning.enrollments") == 0
    mails = await mailed(server, "enrollment-confirm", count=2)
    assert "enrollment-welcome" not in {
        row["template"] for row in await server.db.fetch("select template from onceward.messages")
    }
    tokens = [mail.data["link"].rsplit("/", 1)[-1] for mail in mails]
    _, first = await server.call("POST", f"{PUBLIC}/session", {"token": tokens[0]})
    _, second = await server.call("POST", f"{PUBLIC}/session", {"token": tokens[1]})
    enrollment = await server.db.fetchval("select id from learning.enrollments")
    assert (first["url"].rsplit("/", 1)[-1], first["refused"]) == (str(enrollment), None)
    assert (second["url"].endswith("/learn/home"), second["refused"]) == (True, "cohort_full")
    await mailed(server, "enrollment-welcome", count=1)
    assert await pay(server, cohort, "bob", browser="a") == "cohort_full"


async def test_an_invite_goes_to_people_who_confirmed_their_address(server: Server) -> None:
    cohort = await server.cohort(max_capacity=0)
    for name in ("invented", "ada"):
        await server.call("POST", f"{PUBLIC}/cohorts/{cohort}/waitlist", {"email": f"{name}@example.org"})
    await mailed(server, "enrollment-confirm", count=2)
    [mail] = await mailed(server, "enrollment-confirm", to="ada@example.org", count=1)
    await server.call("POST", f"/api/v1/learning/cohorts/{cohort}/capacity", {"max_capacity": 1}, token=server.key)
    await server.call("POST", f"{PUBLIC}/session", {"token": mail.data["link"].rsplit("/", 1)[-1]})
    invited = "select u.email from learning.waitlist_invites i join learning.users u on u.id = i.user_id"
    assert await until(lambda: server.db.fetchval(invited)) == "ada@example.org"
    assert await server.db.fetchval("select count(*) from learning.waitlist_invites") == 1


@pytest.mark.acceptance("afterPaying")
async def test_after_paying_a_person_sees_what_they_bought_and_not_a_sign_in_form(
    server: Server, stripe: StripeSimulator
) -> None:
    cohort = await server.cohort("Data", price=49900)
    url = await pay(server, cohort, "ada", browser="a")
    session = url.rsplit("/", 1)[-1]
    back = stripe.books.sessions[session]["success_url"]
    path = back.removeprefix(server.url)
    status, page = await server.call("GET", path)
    assert (status, 'data-state="waiting"' in page) == (200, True)
    stripe.pay(session)
    await until(lambda: server.db.fetchval("select id from learning.enrollments"))
    _, page = await server.call("GET", path)
    for words in ("You are enrolled", "€499.00", "a…@example.org"):
        assert words in page
    assert "ada@example.org" not in page, "the link does not prove who opens it"
