"""What the people of each desk do, in Chromium on a desktop and on a phone."""

from __future__ import annotations

import shutil
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from onceward.process.process import Process
from tests.browser import CHROMIUM_ARGUMENTS, NEEDS_CHROMIUM
from tests.demo.walking import Walker, token_of

pytestmark = [*NEEDS_CHROMIUM, pytest.mark.slow]

Flow = Callable[[Any, str], Awaitable[None]]


async def _tab(page: Any, name: str) -> None:
    await page.locator(".tabs").get_by_role("link", name=name, exact=True).click()


async def _do(page: Any, title: str, fields: dict[str, str], *, run: str = "") -> None:
    """Open an action, fill its form, read what will happen, and do it."""
    await page.locator(".head").get_by_role("link", name=title, exact=True).click()
    for label, value in fields.items():
        await page.get_by_label(label, exact=False).first.fill(value)
    if fields:
        await page.get_by_role("button", name="Continue").click()
    await page.get_by_role("heading", name="What will happen").wait_for()
    await page.locator(".desk-form").get_by_role("button", name=run or title, exact=True).click()
    await page.locator(".done-message").wait_for()


async def reception(page: Any, mark: str) -> None:
    await _tab(page, "Patients")
    await _do(page, "Add a patient", {"Name": f"Pat {mark}", "Phone": "+6591234567"})
    await page.get_by_role("heading", name=f"Pat {mark}").wait_for()
    await page.get_by_label("Note for your colleagues").fill("Prefers the morning")
    await page.get_by_role("button", name="Add note").click()
    await page.locator(".timeline").get_by_text("Prefers the morning").wait_for()


async def manager(page: Any, mark: str) -> None:
    await _tab(page, "Coupons")
    await _do(page, "New coupon", {"Code": f"SAVE{mark.upper()}10", "Percent off the price": "10"})
    await page.get_by_text(f"SAVE{mark.upper()}10").first.wait_for()


async def door(page: Any, mark: str) -> None:
    await _tab(page, "Tickets")
    await page.locator("tr[data-row] .name a").first.click()
    await page.get_by_role("heading", name="Timeline").wait_for()
    assert await page.get_by_role("link", name="Orders", exact=True).count() == 0, "the door sees no orders"


async def school(page: Any, mark: str) -> None:
    await page.goto(page.url.rstrip("/") + "/dashboard/learning")
    await _tab(page, "Cohorts")
    await page.locator("tr[data-row] .name a").first.click()
    await _do(page, "Change places", {"Places": "99"})
    await page.locator(".facts").get_by_text("of 99").wait_for()
    await page.get_by_role("link", name="Undo").wait_for()


async def support(page: Any, mark: str) -> None:
    await _tab(page, "Users")
    await page.locator("tr[data-row] .name a").nth(3 if mark == "phone" else 2).click()
    stop = page.locator(".head").get_by_role("link", name="Stop all messages", exact=True)
    if await stop.count():
        await _do(page, "Stop all messages", {"Reason": "Asked on the phone"})
        await page.locator(".timeline").get_by_text("Asked on the phone").wait_for()


async def editor(page: Any, mark: str) -> None:
    await _tab(page, "Courses")
    await page.locator("tr[data-row] .name a").first.click()
    await page.get_by_role("heading", name="Timeline").wait_for()


FLOWS: dict[str, tuple[Walker, Flow]] = {
    "clinic": (Walker("r", "r@x.example", "harbour-clinic", desk_roles=("clinic.reception",)), reception),
    "ticketing": (Walker("m", "m@x.example", "riverside", desk_roles=("ticketing.manager",)), manager),
    "door": (Walker("d", "d@x.example", "riverside", desk_roles=("ticketing.door",)), door),
    "learning": (Walker("s", "s@x.example", "lakeside", "operator"), school),
    "engagement": (Walker("u", "u@x.example", "nexfin", desk_roles=("engagement.support",)), support),
    "coursegen": (Walker("e", "e@x.example", "lighthouse", desk_roles=("coursegen.editor",)), editor),
}


async def test_people_of_each_desk_do_their_work_on_a_desktop_and_on_a_phone(demo: Process) -> None:
    from playwright.async_api import async_playwright

    faults: list[str] = []
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=shutil.which("chromium"), args=CHROMIUM_ARGUMENTS)
        for mark, width in (("desktop", 1280), ("phone", 390)):
            for name, (walker, flow) in FLOWS.items():
                context = await browser.new_context(viewport={"width": width, "height": 860})
                page: Any = await context.new_page()
                page.set_default_timeout(20_000)
                page.on("pageerror", lambda error, name=name: faults.append(f"{name}: {error}"))
                try:
                    await page.goto(f"{demo.web.url}/login?token={await token_of(demo, walker)}")
                    await page.get_by_role("button", name="Log in").click()
                    await page.locator("#main h1").wait_for()
                    await flow(page, mark)
                except Exception as error:
                    text = await page.locator("body").inner_text()
                    faults.append(f"{name} on a {mark} at {page.url}: {error}\n{text[-600:]}")
                await context.close()
        await browser.close()
    assert not faults, "\n\n".join(faults)
