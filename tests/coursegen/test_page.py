"""The page of a course in Chromium: it grows live, and one can cancel, resume, read and download."""

from __future__ import annotations

import os
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Browser, Page, async_playwright, expect

from onceward.limits import set_global
from tests.coursegen.server import Server, running, until_free

SCREENSHOTS = os.environ.get("ONCEWARD_TEST_SCREENSHOTS")
CHROMIUM = shutil.which("chromium")

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed: apt install chromium"),
]


@pytest.fixture
async def server(database_url: str, tmp_path: Path) -> AsyncIterator[Server]:
    async with running(database_url, tmp_path) as opened:
        yield opened


@pytest.fixture
async def browser() -> AsyncIterator[Browser]:
    async with async_playwright() as driver:
        opened = await driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield opened
        await opened.close()


async def open_page(browser: Browser, server: Server, path: str, errors: list[str], **options: Any) -> Page:
    context = await browser.new_context(bypass_csp=False, **options)
    page = await context.new_page()
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
    await page.goto(f"{server.url}{path}#token={server.token()}")
    return page


async def test_a_course_grows_before_the_eyes_of_its_owner(server: Server, browser: Browser, tmp_path: Path) -> None:
    errors: list[str] = []
    server.openai.piece_s, server.openai.piece_characters = 0.15, 12
    page = await open_page(browser, server, "/coursegen", errors, locale="en")
    await page.get_by_label("Title").fill("Knots <img src=x onerror=alert(1)>")
    await page.get_by_label("Lessons").fill("1")
    await page.get_by_role("button", name="Create and generate").click()
    await expect(page.locator("#title")).to_have_text("Knots <img src=x onerror=alert(1)>", timeout=15000)
    assert "token" not in page.url
    await expect(page.locator("#writing")).to_be_visible(timeout=20000)
    await expect(page.locator("#draft p").first).to_be_visible(timeout=20000)
    early = await page.locator("#draft").inner_text()
    await expect(page.locator("#draft")).not_to_have_text(early, timeout=20000)
    await page.get_by_role("button", name="Stop").click()
    await expect(page.locator("#status")).to_have_text("Cancelled", timeout=15000)
    server.openai.piece_s, server.openai.piece_characters = 0.0, 2000
    await until_free(server)
    await page.get_by_role("button", name="Resume").click()
    await expect(page.locator("#status")).to_have_text("Completed", timeout=20000)
    await expect(page.locator("#percentage")).to_have_text("100 %")
    await page.get_by_role("button", name="Read: First steps").click()
    await expect(page.locator("#reader-text")).to_contain_text("Exercises")
    await page.get_by_role("button", name="Close").click()
    async with page.expect_download() as download:
        await page.get_by_role("button", name="Download Markdown").click()
    await (await download.value).save_as(tmp_path / "course.md")
    assert (tmp_path / "course.md").read_text().startswith("# Knots &lt;img")
    assert errors == []


async def test_pages_are_accessible_on_a_phone_and_a_desk_in_both_colours(server: Server, browser: Browser) -> None:
    from axe_core_python.async_playwright import Axe

    course_id = await server.add_course(lessons=2)
    await server.generate(course_id)
    await server.until(course_id, "completed")
    failed = await server.add_course(lessons=1)
    server.openai.refuse()
    await server.generate(failed)
    await server.until(failed, "failed")
    for at_most in (7, 4):
        await set_global(server.db, at_most, actor="test")
    axe, faults = Axe(), []
    for scheme, width, locale in (("light", 1280, "en"), ("dark", 390, "ru")):
        shown = f"/coursegen/courses/{failed if scheme == 'light' else course_id}"
        for path in ("/coursegen", shown, "/dashboard/coursegen"):
            operator = {"Authorization": f"Bearer {server.key}"} if path.startswith("/dashboard") else {}
            context = await browser.new_context(
                extra_http_headers=operator,
                bypass_csp=True,
                color_scheme=scheme,  # pyright: ignore[reportArgumentType]
                viewport={"width": width, "height": 844},
                locale=locale,
                reduced_motion="reduce",
            )
            page = await context.new_page()
            await page.goto(f"{server.url}{path}#token={server.token()}")
            await expect(page.locator("#courses li, #steps li, main table").first).to_be_visible(timeout=15000)
            if SCREENSHOTS is not None:
                name = "course" if path == shown else path.strip("/").replace("/", "-")
                await page.screenshot(path=f"{SCREENSHOTS}/{name}-{width}.png", full_page=True)
            found = await axe.run(page, options={"resultTypes": ["violations"]})
            faults += [
                f"{path} ({scheme}): {each['id']}: {node['html'][:160]}"
                for each in found["violations"]
                for node in each["nodes"][:2]
            ]
            wide = await page.evaluate("document.documentElement.scrollWidth > innerWidth + 1")
            assert not wide, f"{path} scrolls sideways at {width}"
            await context.close()
    assert faults == []


async def test_somebody_elses_course_shows_nothing(server: Server, browser: Browser) -> None:
    course_id = await server.add_course(title="Secret")
    context = await browser.new_context()
    page = await context.new_page()
    stranger = server.token("11111111-1111-4111-8111-111111111111")
    await page.goto(f"{server.url}/coursegen/courses/{course_id}#token={stranger}")
    await expect(page.locator("#message")).to_contain_text("does not exist", timeout=15000)
    assert "Secret" not in await page.content()
