"""The page with the seat map of a large house, in Chromium: few buttons at first, and other buyers' seats at once."""

from __future__ import annotations

import os
import shutil
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.browser import CHROMIUM_ARGUMENTS, NEEDS_CHROMIUM
from tests.ticketing.test_http import PUBLIC, Shop, opened_shop

if TYPE_CHECKING:
    from playwright.async_api import ViewportSize

pytestmark = NEEDS_CHROMIUM

ROWS = int(os.environ.get("ONCEWARD_TEST_MAP_ROWS", "60"))
SEATS = 40


@pytest.fixture
async def shop(database_url: str, tmp_path: Path) -> AsyncIterator[Shop]:
    async with opened_shop(database_url, tmp_path) as shop:
        yield shop


@pytest.fixture
async def arena(shop: Shop) -> str:
    """An event with many rows in two sections."""
    venue = await shop.call("/api/v1/ticketing/venues", {"name": "Arena"}, staff=True)
    starts = datetime.now(UTC) + timedelta(days=20)
    half = {f"{row}-": SEATS for row in range(1, ROWS // 2 + 1)}
    event = await shop.call(
        "/api/v1/ticketing/events",
        {
            "venue_id": venue["id"],
            "name": "Arena Night",
            "starts_at": starts.isoformat(),
            "ends_at": (starts + timedelta(hours=3)).isoformat(),
            "currency": "EUR",
            "sections": [
                {"name": "Floor", "price_cents": 9000, "rows": half},
                {"name": "Upper", "price_cents": 5000, "rows": half},
            ],
        },
        staff=True,
    )
    await shop.call(f"/api/v1/ticketing/events/{event['id']}/status", {"status": "on_sale"}, staff=True)
    return event["id"]


@pytest.mark.parametrize("device", ["phone", "desktop"])
async def test_a_large_map_makes_rows_when_they_come_near_and_shows_seats_of_others(
    shop: Shop, arena: str, device: str
) -> None:
    from playwright.async_api import async_playwright

    view: ViewportSize = {"width": 390, "height": 844} if device == "phone" else {"width": 1280, "height": 900}
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=shutil.which("chromium"), args=CHROMIUM_ARGUMENTS)
        page = await browser.new_page(viewport=view, has_touch=device == "phone")
        faults: list[str] = []
        page.on("pageerror", lambda error: faults.append(str(error)))
        await page.goto(f"{shop.url}/events/{arena}")
        first = page.locator('[data-label="Floor 1-1"]')
        await first.wait_for()
        await page.get_by_text(f"{ROWS * SEATS // 2} free").first.wait_for()
        assert 0 < await page.locator(".seat").count() < ROWS * SEATS
        await picture(page, f"{device}-1-open")
        await first.click()
        await page.locator('[data-label="Floor 1-1"][data-mine]').wait_for()
        await shop.call(f"{PUBLIC}/events/{arena}/holds", {"seats": ["Floor 1-3", "Upper 2-5"]})
        await page.locator('[data-label="Floor 1-3"][data-state=h]').wait_for()
        await page.get_by_text(f"{ROWS * SEATS // 2 - 2} free").first.wait_for()
        await picture(page, f"{device}-2-held")
        # A row that is far away: it is made when the buyer goes there, with the states that came before.
        await page.get_by_label("Go to").select_option(label="Upper, row 2-")
        await page.locator('[data-label="Upper 2-5"][data-state=h]').wait_for()
        focused = await page.evaluate("document.activeElement.dataset.label")
        assert focused == "Upper 2-1"
        await page.keyboard.press("ArrowDown")
        assert await page.evaluate("document.activeElement.dataset.label") == "Upper 3-1"
        await picture(page, f"{device}-3-row")
        assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        assert faults == []
        await browser.close()


async def picture(page: Any, name: str) -> None:
    """Take a picture if a folder is given, for people who look at them."""
    folder = os.environ.get("ONCEWARD_TEST_PICTURES")
    if folder:
        await page.screenshot(path=f"{folder}/{name}.png")
