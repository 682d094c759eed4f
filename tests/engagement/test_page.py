"""The pages of engagement in Chromium, on a desktop and on a phone: from the funnel to one user, and a button."""

from __future__ import annotations

import os
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Browser, Page, async_playwright, expect

from tests.browser import CHROMIUM_ARGUMENTS, NEEDS_CHROMIUM
from tests.engagement.site import Site, add_user

pytestmark = NEEDS_CHROMIUM

PATH = "/dashboard/engagement"
TIMEOUT_MS = 20_000
SCREENSHOTS = os.environ.get("ONCEWARD_TEST_SCREENSHOTS")


@pytest.fixture
async def browser() -> AsyncIterator[Browser]:
    async with async_playwright() as driver:
        opened = await driver.chromium.launch(executable_path=shutil.which("chromium"), args=CHROMIUM_ARGUMENTS)
        yield opened
        await opened.close()


async def arrange(site: Site) -> str:
    """Users in three states, one who cannot be reached, and a finished run. Return a user who got the goodbye."""
    gone = await add_user(site, days=20)
    await add_user(site, days=30, whatsapp_jid=None)
    for days in (0.5, 3.0):
        await add_user(site, days=days)
    await site.run("engagement-daily")
    await add_user(site, days=40)
    return gone


async def check_layout(page: Page, name: str) -> list[str]:
    """Return what axe finds, and whether the page scrolls sideways."""
    from axe_core_python.async_playwright import Axe

    await page.evaluate("document.querySelectorAll('main details').forEach(each => each.open = true)")
    found = await Axe().run(page, options={"resultTypes": ["violations"]})
    faults = [f"{name}: {each['id']}: {node['html'][:160]}" for each in found["violations"] for node in each["nodes"]]
    if await page.evaluate("document.documentElement.scrollWidth > innerWidth + 1"):
        faults.append(f"{name} scrolls sideways")
    if SCREENSHOTS is not None:
        await page.screenshot(path=str(Path(SCREENSHOTS) / f"{name}.png"), full_page=True)
    return faults


async def test_an_operator_goes_from_the_funnel_to_a_user_on_a_desktop_and_a_phone(
    site: Site, browser: Browser
) -> None:
    gone = await arrange(site)
    problems: list[str] = []
    faults: list[str] = []
    for number, (scheme, width) in enumerate((("light", 1280), ("dark", 390))):
        options: dict[str, Any] = {"color_scheme": scheme, "viewport": {"width": width, "height": 844}}
        context = await browser.new_context(bypass_csp=True, reduced_motion="reduce", **options)
        context.set_default_timeout(TIMEOUT_MS)
        expect.set_options(timeout=TIMEOUT_MS)
        page = await context.new_page()
        page.on("pageerror", lambda error: problems.append(str(error)))
        await page.goto(await site.login(f"olga{number}@example.org"))
        await page.get_by_role("button", name="Log in").click()
        await page.wait_for_url(site.url + "/")

        await page.goto(site.url + PATH)
        await expect(page.get_by_role("heading", name="5 users")).to_be_visible()
        await expect(page.locator("#main")).to_contain_text("Daily run")
        faults += await check_layout(page, f"funnel-{width}")

        await page.get_by_role("link", name="Dry run").click()
        await expect(page.get_by_text("no activity for 40 days")).to_be_visible()
        faults += await check_layout(page, f"dry-run-{width}")

        await page.goto(f"{site.url}{PATH}/user?id={gone}")
        await expect(page.get_by_text("Got the goodbye").first).to_be_visible()
        faults += await check_layout(page, f"user-{width}")
        button = ("Stop all messages", "Allow messages again")[number]
        await page.get_by_role("button", name=button).click()
        await expect(
            page.get_by_role("button", name=("Allow messages again", "Stop all messages")[number])
        ).to_be_visible()
        opted_out = await site.db.fetchval(
            "select reengagement_opt_out from engagement.user_profiles where user_id = $1::text::uuid", gone
        )
        assert opted_out is (number == 0)
        await context.close()
    assert (problems, faults) == ([], [])
