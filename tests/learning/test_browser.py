"""Two people in two browsers share a chat; a third sees places left change. Hostile text is shown, never run."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

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
            assert await bob.title() == "Chat Course"

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
