"""The page of a door in Chromium: camera, names, undo, and a network that is cut while guests come."""

from __future__ import annotations

import io
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.browser import CHROMIUM_ARGUMENTS, NEEDS_CHROMIUM
from tests.ticketing.test_http import Shop, opened_shop
from tests.ticketing.test_map_page import picture

pytestmark = [*NEEDS_CHROMIUM, pytest.mark.acceptance("door-offline")]
PHONE: Any = {"width": 390, "height": 844}


@pytest.fixture
async def shop(database_url: str, tmp_path: Path) -> AsyncIterator[Shop]:
    async with opened_shop(database_url, tmp_path) as shop:
        yield shop


async def open_door(shop: Shop, browser: Any, name: str, tickets: int) -> Any:
    door = await shop.call(f"/api/v1/ticketing/events/{shop.event_id}/doors", {"name": name}, staff=True)
    page = await (await browser.new_context(viewport=PHONE, has_touch=True, permissions=["camera"])).new_page()
    page.on("pageerror", lambda error: pytest.fail(f"{name}: {error}"))
    await page.goto(door["url"])
    await page.get_by_text(f"{tickets} tickets are on this device").wait_for()
    # The service worker has the page when it is in control of it.
    await page.wait_for_function("navigator.serviceWorker.controller !== null")
    return page


async def check(page: Any, text: str, words: str) -> None:
    await page.get_by_label("Ticket code").fill(text)
    await page.get_by_role("button", name="Check", exact=True).click()
    await page.locator("#verdict", has_text=words).wait_for()


def moving_picture(png: bytes, path: Path) -> None:
    """Write what a camera sees that looks at this image: one frame, which Chromium repeats."""
    from PIL import Image

    scene = Image.new("RGB", (640, 480), "white")
    scene.paste(Image.open(io.BytesIO(png)).convert("RGB").resize((380, 380)).rotate(7, fillcolor="white"), (130, 50))
    scene.save(path, format="JPEG", quality=80)


async def test_the_door_works_without_a_network_and_reports_tickets_that_entered_twice(
    shop: Shop, tmp_path: Path
) -> None:
    from playwright.async_api import async_playwright

    checkout = await shop.start(3, places=2)
    tickets = await shop.pay(checkout)
    codes = {ticket["place"]: ticket["ticket_code"] for ticket in tickets}
    seen = next(ticket for ticket in tickets if ticket["place"] == "Stalls A1")
    camera = tmp_path / "camera.mjpeg"
    moving_picture(await shop.call(f"{seen['qr_code_url']}?access={checkout['token']}"), camera)
    flags = [
        "--use-fake-ui-for-media-stream",
        "--use-fake-device-for-media-stream",
        f"--use-file-for-fake-video-capture={camera}",
    ]
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=[*CHROMIUM_ARGUMENTS, *flags]
        )
        north = await open_door(shop, browser, "North", 5)
        south = await open_door(shop, browser, "South", 5)

        # With a network: typed, undone, by name, and the counters of the other door follow.
        await check(north, codes["Stalls A2"].lower(), "Welcome")
        await south.locator("#entered", has_text="1").wait_for()
        await north.get_by_role("button", name="Undo the last scan").click()
        await north.locator("#verdict", has_text="Undone").wait_for()
        await south.locator("#entered", has_text="0").wait_for()
        await south.get_by_label("Name, seat").fill("stalls a3")
        await south.get_by_role("button", name="Check in").click()
        await south.locator("#verdict", has_text="Welcome").wait_for()
        await north.locator("#entered", has_text="1").wait_for()
        await picture(north, "door-1-online")

        # A ticket that is sold after the list came: only its signature speaks for it.
        late = (await shop.pay(await shop.start(0, places=1)))[0]
        qr = await late_payload(shop, late)

        for page in (north, south):
            await page.context.set_offline(True)
        # The page itself opens without a network, and reads the camera with the library, as an iPhone does.
        await north.reload()
        await north.get_by_text("No connection").wait_for()
        assert await north.evaluate("'BarcodeDetector' in globalThis") is False
        await north.get_by_role("button", name="Use the camera").click()
        await north.locator("#verdict", has_text="Stalls A1").wait_for()
        await north.locator("#verdict.yes", has_text="Welcome").wait_for()
        await check(north, codes["Stalls A1"], "Already used")
        await check(north, qr, "Welcome")
        await check(north, qr, "Already used")
        await check(north, qr[:-4] + "0000", "Not a ticket of this event")
        await check(north, "3KQR-7F92-4M1X", "Not a ticket")
        await picture(north, "door-2-offline")
        await check(south, codes["Stalls A1"], "Welcome")
        await check(south, codes["Stalls A2"], "Welcome")
        await south.get_by_role("button", name="Undo the last scan").click()
        await south.locator("#verdict", has_text="Undone").wait_for()
        await south.locator("#waiting", has_text="1").wait_for()

        await north.context.set_offline(False)
        await north.locator("#waiting", has_text="0").wait_for()
        await south.context.set_offline(False)
        wrong = south.locator("#wrong li")
        await wrong.filter(has_text="Stalls A1").filter(has_text="was used").filter(has_text="at North").wait_for()
        await picture(south, "door-3-reported")
        for page in (north, south):
            await page.locator("#entered", has_text="3").wait_for()
            assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        await browser.close()
    rows = await shop.runtime.database.fetch(
        "select outcome, was_offline, let_in, count(*) from ticketing.scans where undone_at is null group by 1, 2, 3"
    )
    counts = {(row["outcome"], row["was_offline"], row["let_in"]): row["count"] for row in rows}
    # A machine that is too slow to read the picture for three seconds scans it again.
    again = sum(counts.pop(("already_used", was_offline, False), 0) for was_offline in (True, False))
    assert again >= 2
    assert counts == {
        ("admitted", False, True): 1,
        ("admitted", True, True): 2,
        ("already_used", True, True): 1,
        ("forged", True, False): 1,
        ("unknown", True, False): 1,
    }


async def late_payload(shop: Shop, ticket: Any) -> str:
    """The text of the ticket's QR code."""
    from uuid import UUID

    from onceward_apps.ticketing.codes import qr_payload
    from onceward_apps.ticketing.store import keys

    engine = shop.runtime.engine
    organization = await shop.runtime.database.fetchval("select organization_id from onceward.organizations")
    async with engine.transaction(organization=organization) as tx:
        return qr_payload(await keys.signing_key(tx), UUID(shop.event_id), ticket["ticket_code"])
