"""The day of a clinic in Chromium, on a desktop and on a phone: who is in the room changes while somebody looks."""

from __future__ import annotations

import os
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Literal
from uuid import UUID
from zoneinfo import ZoneInfo

import pytest

from onceward.trust.organizations import set_member
from onceward.trust.sessions import link_for
from onceward_apps.clinic import bookings
from onceward_apps.clinic.demo import ClinicDemo
from tests.browser import CHROMIUM_ARGUMENTS, NEEDS_CHROMIUM

pytestmark = NEEDS_CHROMIUM

SIZES: dict[str, tuple[int, int, Literal["light", "dark"]]] = {
    "desktop": (1280, 900, "light"),
    "phone": (390, 844, "dark"),
}
TIMEOUT_MS = 60_000
LONG_NAME = "Maximiliana Konstantinopolitanskaya-Featherstonehaugh"
SCROLLS = "document.documentElement.scrollWidth > innerWidth + 1"

OpenPage = Callable[[str], Awaitable[Any]]


@pytest.fixture
async def open_page(demo: ClinicDemo) -> AsyncIterator[OpenPage]:
    """`await open_page("phone")`: a page of an operator of the clinic, in a browser of its own."""
    from playwright.async_api import async_playwright

    email = "otto@harbour.example"
    async with demo.engine.db.transaction(role="engine") as tx:
        assert demo.organization is not None
        await set_member(tx, demo.organization, email, "operator", actor="test")
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=shutil.which("chromium"), args=CHROMIUM_ARGUMENTS)

        async def enter(device: str) -> Any:
            width, height, scheme = SIZES[device]
            context = await browser.new_context(
                viewport={"width": width, "height": height},
                color_scheme=scheme,
                has_touch=device == "phone",
                bypass_csp=True,  # for the accessibility checker, which is injected
            )
            page: Any = await context.new_page()
            page.set_default_timeout(TIMEOUT_MS)
            page.problems = []
            page.on("pageerror", lambda error: page.problems.append(str(error)))
            async with demo.engine.db.transaction(role="engine") as tx:
                token = await link_for(tx, email, actor="test")
            await page.goto(f"{demo.base_url}/login?token={token}")
            await page.get_by_role("button", name="Log in").click()
            await page.wait_for_url(demo.base_url + "/")
            return page

        yield enter
        await browser.close()


async def book(demo: ClinicDemo, name: str, **data: Any) -> tuple[UUID, str, str]:
    """Book for the next minutes. Return the appointment, its room, and its day on the clinic's clock."""
    starts_at = datetime.now(UTC) + timedelta(minutes=2)
    async with demo.engine.transaction(organization=demo.organization) as tx:
        patient = await bookings.save_patient(tx, None, bookings.PatientData(name=name, **data), actor="test")
        row = await bookings.create(tx, patient["id"], starts_at, price=8000, currency="SGD", actor="test")
        room = await bookings.request_room(tx, row["id"])
    return row["id"], room, str(starts_at.astimezone(ZoneInfo("Asia/Singapore")).date())


@pytest.mark.timeout(180)
async def test_the_day_shows_live_who_is_in_the_room_on_a_desktop_and_a_phone(
    demo: ClinicDemo, open_page: OpenPage
) -> None:
    from axe_core_python.async_playwright import Axe
    from playwright.async_api import expect

    expect.set_options(timeout=TIMEOUT_MS)
    shots = os.environ.get("ONCEWARD_TEST_SCREENSHOTS")  # a folder, to look at the pages
    appointment, room, day = await book(demo, LONG_NAME, whatsapp="+6591234567", reference="MRN-" + "9" * 60)
    waiting, _, _ = await book(demo, "Ben Lim", whatsapp="+6597654321")
    pages = {device: await open_page(device) for device in SIZES}
    cells: dict[str, Any] = {}
    for device, page in pages.items():
        await page.goto(f"{demo.base_url}/dashboard/clinic/appointments?starts_at_from={day}&zone=Asia/Singapore")
        await expect(page.locator("#link-state")).to_have_text("Live")
        cells[device] = page.locator(f"[data-row='{appointment}'] td[data-label='In the room']")
        await expect(cells[device]).to_have_text("–")

    guest = demo.daily.join(room, user_name=LONG_NAME)
    host = demo.daily.join(room, user_name="Dr. Koh", owner=True)
    for device, page in pages.items():
        await expect(cells[device]).to_contain_text("Dr. Koh")
        await expect(cells[device]).to_contain_text(LONG_NAME)
        await expect(page.locator(f"[data-row='{appointment}'] td[data-label='State']")).to_have_text("In the room")
        if shots:
            await page.screenshot(path=Path(shots) / f"clinic-day-{device}.png", full_page=True)
    demo.daily.leave(guest)
    demo.daily.leave(host)
    for cell in cells.values():
        await expect(cell).to_have_text("–")

    axe = Axe()
    faults: list[str] = []
    for device, page in pages.items():
        for name, path in (
            ("home", "/dashboard/clinic"),
            ("day", f"/dashboard/clinic/appointments?starts_at_from={day}"),
            ("appointment", f"/dashboard/clinic/appointments/row/{appointment}"),
            ("open appointment", f"/dashboard/clinic/appointments/row/{waiting}"),
            ("cancel", f"/dashboard/clinic/appointments/do/cancel?ids={waiting}"),
            ("inbox", "/dashboard/clinic/inbox"),
            ("paid", f"/clinic/paid?appointment={appointment}"),
        ):
            await page.goto(demo.base_url + path)
            if await page.evaluate(SCROLLS):
                faults.append(f"{name} scrolls sideways on a {device}")
            if device == "phone":
                found = await axe.run(page, options={"resultTypes": ["violations"]})
                faults += [f"{name}: {each['id']}" for each in found["violations"]]
            if shots:
                path = Path(shots) / f"clinic-{name.replace(' ', '-')}-after-{device}.png"
                await page.screenshot(path=path, full_page=True)
        assert page.problems == []
    assert faults == []
