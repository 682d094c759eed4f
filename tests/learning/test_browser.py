"""Two people in two browsers share a chat; a third sees places left change. Hostile text is shown, never run.

With ONCEWARD_TEST_ARTIFACTS=<folder> the tests write pictures of the pages to that folder.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from onceward.integrations.stripe import StripeSimulator
from onceward.testing import until
from onceward_apps.learning import discounts, quizzes, seats
from onceward_apps.learning.store import curriculum
from tests.browser import CHROMIUM_ARGUMENTS, NEEDS_CHROMIUM
from tests.learning.server import Server, running

pytestmark = NEEDS_CHROMIUM

HTML = "<img src=x onerror=\"document.title='owned'\">"
TIMEOUT_MS = 60_000


@pytest.fixture
async def server(database_url: str, tmp_path: Path) -> AsyncIterator[Server]:
    async with running(database_url, tmp_path) as made:
        yield made


async def _open(browser: Any, server: Server, name: str, path: str) -> Any:
    """Return the page of a signed-in student in a browser of their own."""
    context = await browser.new_context()
    context.set_default_timeout(TIMEOUT_MS)
    session = await server.sign_in(name)
    await context.add_cookies([{"name": "learning_session", "value": session, "url": server.url}])
    page = await context.new_page()
    problems: list[str] = []
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.problems = problems
    await page.goto(server.url + path)
    return page


@pytest.mark.acceptance("subscribeToChatMessages", "subscribeToOnlineUsers", "subscribeToEnrollmentCount")
async def test_two_people_chat_in_two_browsers(server: Server) -> None:
    from playwright.async_api import async_playwright

    cohort = await server.cohort("Chat Course", max_capacity=3)
    enrollments = {name: await server.enrol(cohort, name) for name in ("Ada", "Bob")}
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=shutil.which("chromium"), args=CHROMIUM_ARGUMENTS)
        try:
            visitor = await (await browser.new_context()).new_page()
            visitor.set_default_timeout(TIMEOUT_MS)
            await visitor.goto(f"{server.url}/learn/cohorts/{cohort}")
            await visitor.get_by_text("1 of 3 places left").wait_for()
            await server.enrol(cohort, "Eve")
            await visitor.get_by_text("0 of 3 places left").wait_for()
            await visitor.get_by_role("button", name="Join the waitlist").wait_for()

            await server.begin(cohort)
            ada = await _open(browser, server, "Ada", f"/learn/home/{enrollments['Ada']}")
            bob = await _open(browser, server, "Bob", f"/learn/home/{enrollments['Bob']}")
            await ada.get_by_text("2 online: Ada, Bob").wait_for()

            await ada.get_by_label("Message", exact=True).fill(f"Hello Bob {HTML}")
            await ada.get_by_role("button", name="Send").click()
            heard = bob.locator("#messages li", has_text="Hello Bob")
            await heard.wait_for()
            assert HTML in await heard.inner_text()
            assert await bob.title() == "Chat Course · Riverside School"

            await bob.get_by_label("Message", exact=True).fill("Hello Ada")
            await bob.get_by_role("button", name="Send").click()
            answer = ada.locator("#messages li", has_text="Hello Ada")
            await answer.wait_for()
            await answer.get_by_role("button", name="👍").click()
            await bob.locator("#messages button", has_text="👍 1").wait_for()
            assert ada.problems == []
            assert bob.problems == []
        finally:
            await browser.close()


async def _picture(page: Any, name: str) -> None:
    """Assert that nothing is wider than the screen, and take a picture if somebody wants it."""
    width = await page.evaluate("[document.documentElement.scrollWidth, window.innerWidth]")
    assert width[0] <= width[1], f"{name} is wider than the screen: {width}"
    if folder := os.environ.get("ONCEWARD_TEST_ARTIFACTS"):
        await page.screenshot(path=str(Path(folder) / f"learning-{name}.png"), full_page=True)


@pytest.mark.slow
async def test_a_visitor_with_a_phone_pays_in_portuguese_and_chats(database_url: str, tmp_path: Path) -> None:
    from playwright.async_api import async_playwright

    async with (
        StripeSimulator(retry_delays_s=(0.2, 1.0)) as stripe,
        running(database_url, tmp_path, stripe=stripe) as server,
    ):
        more = {"price": 49900, "instalment_price": 17000, "instalment_count": 3, "description": "Quatro semanas."}
        cohort = await server.cohort("Engenharia de Dados", **more)
        async with async_playwright() as playwright:
            browser = await playwright.chromium.launch(
                executable_path=shutil.which("chromium"), args=CHROMIUM_ARGUMENTS
            )
            try:
                screen: Any = {"width": 390, "height": 844}
                context = await browser.new_context(viewport=screen, is_mobile=True, has_touch=True, locale="pt-PT")
                context.set_default_timeout(TIMEOUT_MS)
                phone = await context.new_page()
                await phone.goto(f"{server.url}/learn/o/riverside")
                await phone.get_by_text("10 de 10 vagas livres").wait_for()
                await _picture(phone, "catalogue-phone")
                await phone.get_by_role("link", name="Engenharia de Dados").click()
                await phone.get_by_label("Endereço de email").fill("ines@example.org")
                await phone.get_by_label("Nome").fill("Inês")
                await phone.get_by_role("button", name="Pagar em 3 prestações").wait_for()
                await _picture(phone, "cohort-phone")
                await phone.get_by_role("button", name="Continuar para o pagamento").click()
                await phone.get_by_role("button", name="Pay").first.click()
                # The page waits for the webhook by itself: a person who has paid sees no sign-in form.
                await phone.get_by_role("heading", name="A sua inscrição está confirmada").wait_for()
                await _picture(phone, "enrolled-phone")

                async def enrolled() -> Any:
                    return await server.db.fetchval("select id from learning.enrollments")

                enrollment = await until(enrolled)
                await server.begin(cohort)
                session = await server.sign_in("Ines")
                cookie: Any = {"name": "learning_session", "value": session, "url": server.url}
                await context.add_cookies([cookie])
                await phone.goto(f"{server.url}/learn/home")
                await phone.get_by_role("link", name="Engenharia de Dados").click()
                desk = await (await browser.new_context(color_scheme="dark")).new_page()
                desk.set_default_timeout(TIMEOUT_MS)
                await desk.context.add_cookies([cookie])
                await desk.goto(f"{server.url}/learn/home/{enrollment}")
                await desk.get_by_label("Message", exact=True).fill("Hello from the desk")
                await desk.get_by_role("button", name="Send").click()
                await phone.locator("#messages li", has_text="Hello from the desk").wait_for()
                await phone.get_by_label("Mensagem", exact=True).fill("Olá do telemóvel")
                await phone.get_by_role("button", name="Enviar").click()
                await desk.locator("#messages li", has_text="Olá do telemóvel").wait_for()
                await _picture(phone, "student-phone")
                await _picture(desk, "student-desk")
            finally:
                await browser.close()


DEVICES: dict[str, dict[str, Any]] = {
    "phone": {"viewport": {"width": 390, "height": 844}, "is_mobile": True, "has_touch": True},
    "desktop": {"viewport": {"width": 1280, "height": 900}},
}


@pytest.mark.slow
@pytest.mark.parametrize("device", DEVICES)
async def test_a_school_sells_with_a_code_and_teaches(database_url: str, tmp_path: Path, device: str) -> None:
    from playwright.async_api import async_playwright

    async with (
        StripeSimulator(retry_delays_s=(0.2, 1.0)) as stripe,
        running(database_url, tmp_path, stripe=stripe) as server,
    ):
        cohort = await server.cohort("Data Engineering", price=49900)
        async with server.engine.transaction(organization=server.organization) as tx:
            await discounts.add(tx, "SPRING-31", percent=20, actor="op")
            quiz = (await curriculum.add_item(tx, cohort, kind="quiz", title="First quiz"))["id"]
            await quizzes.set_questions(tx, quiz, "What is 1 + 1?\n* 2\n- 3\n", actor="op")
            await curriculum.add_item(tx, cohort, kind="assignment", title="A pipeline", graded=True)
            seat = await seats.reserve(
                tx, cohort, company="Acme", contact_email="hr@acme.example", number=2, actor="op"
            )
            assert seat["company"] == "Acme"
        link: str = await server.db.fetchval(
            "select data ->> 'link' from onceward.messages where template = 'company-seats'"
        )
        async with async_playwright() as playwright:
            browser = await playwright.chromium.launch(
                executable_path=shutil.which("chromium"), args=CHROMIUM_ARGUMENTS
            )
            try:
                context = await browser.new_context(**DEVICES[device])
                context.set_default_timeout(TIMEOUT_MS)
                page = await context.new_page()
                problems: list[str] = []
                page.on("pageerror", lambda error: problems.append(str(error)))
                await page.goto(f"{server.url}/learn/cohorts/{cohort}")
                await page.get_by_role("link", name="Riverside School").wait_for()
                await page.get_by_text("I have a discount code").click()
                await page.get_by_label("Discount code").fill("wrong-code")
                await page.get_by_role("button", name="Apply").click()
                await page.get_by_text("this code is not valid for this course").wait_for()
                await page.get_by_label("Discount code").fill("spring-31")
                await page.get_by_role("button", name="Apply").click()
                await page.get_by_text("The code lowers the price to").wait_for()
                await _picture(page, f"discount-{device}")
                await page.get_by_label("Email address").fill("ada@example.org")
                await page.get_by_label("Name").fill("Ada")
                await page.get_by_role("button", name="Continue to payment").click()
                await page.get_by_role("button", name="Pay").first.click()
                await page.get_by_role("heading", name="You are enrolled").wait_for()
                assert "399.20" in await page.locator("main").inner_text()
                await page.goto(server.url + link[link.index("/learn/") :])
                await page.get_by_role("button", name="Take a seat").wait_for()
                await _picture(page, f"seats-{device}")

                enrollment = await server.db.fetchval("select id from learning.enrollments")
                await server.begin(cohort)
                session = await server.sign_in("Ada")
                await context.add_cookies([{"name": "learning_session", "value": session, "url": server.url}])
                await page.goto(f"{server.url}/learn/home/{enrollment}")
                await page.get_by_text("Answer the questions").click()
                await page.get_by_label("3").check()
                await page.get_by_role("button", name="Check the answers").click()
                await page.get_by_text("0 %: look at the marked questions").wait_for()
                await page.get_by_label("2", exact=True).check()
                await page.get_by_role("button", name="Check the answers").click()
                await page.get_by_text("First quiz · passed").wait_for()
                await page.get_by_text("Hand in your work").click()
                await page.get_by_label("Your work").fill("See the file")
                await page.get_by_label("Files").set_input_files(
                    files=[{"name": "pipeline.sql", "mimeType": "text/plain", "buffer": b"select 1"}]
                )
                await page.get_by_role("link", name="pipeline.sql").wait_for()
                await _picture(page, f"coursework-{device}")
                await page.get_by_role("button", name="Hand in", exact=True).click()
                await page.get_by_text("handed in, not graded yet").wait_for()
                await page.goto(f"{server.url}/learn/certificates")
                await page.get_by_role("button", name="Check the certificate").wait_for()
                await _picture(page, f"verify-{device}")
                assert problems == []
            finally:
                await browser.close()
