"""The shop in a frame of the organizer's own site, in Chromium: one script tag, no cookie, a German browser."""

from __future__ import annotations

import os
import shutil
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web

from tests.browser import CHROMIUM_ARGUMENTS, NEEDS_CHROMIUM
from tests.ticketing.test_http import Shop, opened_shop

pytestmark = NEEDS_CHROMIUM
PICTURES = os.environ.get("ONCEWARD_TEST_PICTURES")


@pytest.fixture
async def shop(database_url: str, tmp_path: Path) -> AsyncIterator[Shop]:
    async with opened_shop(database_url, tmp_path) as shop:
        yield shop


@pytest.fixture
async def site(shop: Shop) -> AsyncIterator[str]:
    """The organizer's own site, on another origin, with a policy that allows nothing but the shop."""
    policy = f"default-src 'none'; script-src {shop.url}; frame-src {shop.url}"

    async def page(request: web.Request) -> web.Response:
        tag = f'<script src="{shop.url}/ticketing/static/embed.js" data-event="{request.query["event"]}"></script>'
        return web.Response(
            text=f"<!doctype html><title>Hall</title><h1>Our hall</h1>{tag}",
            content_type="text/html",
            headers={"Content-Security-Policy": policy},
        )

    app = web.Application()
    app.router.add_get("/", page)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    yield f"http://localhost:{runner.addresses[0][1]}"
    await runner.cleanup()


async def add_event(shop: Shop) -> str:
    venue = await shop.call("/api/v1/ticketing/venues", {"name": "Frame Hall"}, staff=True)
    starts = datetime.now(UTC) + timedelta(days=20)
    event = await shop.call(
        "/api/v1/ticketing/events",
        {
            "venue_id": venue["id"],
            "name": "Frame Night",
            "starts_at": starts.isoformat(),
            "ends_at": (starts + timedelta(hours=3)).isoformat(),
            "currency": "EUR",
            "sections": [
                {
                    "name": "Saal",
                    "price_cents": 9000,
                    "rows": {"A": 6},
                    "types": [{"name": "Schüler", "price_cents": 4000}],
                },
                {"name": "Parkplatz", "price_cents": 500, "places": 5, "is_addon": True},
            ],
        },
        staff=True,
    )
    path = f"/api/v1/ticketing/events/{event['id']}"
    question = {"title": "Essen", "about": "ticket", "choices": ["Fleisch", "Vegan"], "is_required": True}
    await shop.call(f"{path}/questions", question, staff=True)
    await shop.call(f"{path}/presale-codes", {"code": "FRUEH-2031"}, staff=True)
    await shop.call(f"{path}/status", {"status": "on_sale"}, staff=True)
    opens = {"sale_from": (datetime.now(UTC) + timedelta(days=1)).isoformat()}
    async with (
        aiohttp.ClientSession(shop.url, headers={"authorization": f"Bearer {shop.key}"}) as http,
        http.patch(path, json=opens) as answer,
    ):
        assert answer.status == 200, await answer.text()
    return event["id"]


@pytest.mark.acceptance("embed")
@pytest.mark.acceptance("languages")
@pytest.mark.acceptance("questions")
async def test_a_buyer_buys_in_a_frame_with_a_code_a_type_and_an_answer_in_german(shop: Shop, site: str) -> None:
    from playwright.async_api import async_playwright

    event_id = await add_event(shop)
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=shutil.which("chromium"), args=CHROMIUM_ARGUMENTS)
        page = await browser.new_page(locale="de-AT", viewport={"width": 390, "height": 844})
        page.on("console", lambda line: print(line.type, line.text))
        page.on("pageerror", lambda error: print("error", error))
        blocked: list[str] = []
        page.on("console", lambda line: blocked.append(line.text) if "frame-ancestors" in line.text else None)
        await page.goto(f"{site}/?event={event_id}")
        await page.wait_for_timeout(300)
        assert blocked  # the organizer has not named this site
        await shop.call("/api/v1/ticketing/shop", {"sites": [site]}, staff=True, method="PUT")
        await page.goto(f"{site}/?event={event_id}")
        frame = page.frame_locator("iframe")
        await frame.get_by_text("Der Verkauf beginnt:").wait_for()
        await frame.get_by_label("Vorverkaufscode").fill("frueh-2031")
        await frame.get_by_role("button", name="Anwenden").click()
        await frame.locator('main[data-code="FRUEH-2031"]').wait_for()
        await frame.locator('[data-label="Saal A1"]').click()
        await frame.get_by_text("Saal, Reihe A, Platz 1 ist für Sie reserviert.").wait_for()
        await frame.get_by_role("button", name="Einen hinzufügen").click()
        await frame.get_by_text("2 Tickets").first.wait_for()
        await frame.get_by_label("Preis von Saal A1").select_option(
            label="Schüler, 40,00\xa0€".replace("40,00\xa0€", "€\xa040,00")
        )
        await frame.get_by_text("€\xa046,13").first.wait_for()
        await frame.get_by_label("Essen").select_option("Vegan")
        await frame.get_by_label("E-Mail-Adresse für die Tickets").fill("kind@example.org")
        if PICTURES:
            await page.screenshot(path=f"{PICTURES}/embed-de.png", full_page=True)
        height = await page.evaluate("document.querySelector('iframe').getBoundingClientRect().height")
        assert height > 900
        await frame.get_by_role("button", name="Weiter zur Zahlung").click()
        await page.wait_for_url(f"{shop.stripe.url}/**")
        await browser.close()
    row = await shop.runtime.database.fetchrow("select answers, subtotal_cents from ticketing.checkouts")
    assert row is not None
    assert (row["answers"]["tickets"], row["subtotal_cents"]) == ([{"Essen": "Vegan"}, {}], 4500)


@pytest.mark.acceptance("embed")
async def test_the_organizers_page_lists_its_events_in_the_language_of_the_browser(shop: Shop) -> None:
    event_id = await add_event(shop)
    about = {"about": "Am Fluss.\nSeit 1998.", "bank_account": "DE02 1203"}
    await shop.call("/api/v1/ticketing/shop", about, staff=True, method="PUT")
    async with aiohttp.ClientSession(shop.url, headers={"accept-language": "af;q=0.9"}) as http:
        async with http.get("/organizers/riverside") as answer:
            text = await answer.text()
            assert answer.headers["content-language"] == "af"
            assert "Am Fluss." in text
            assert f"/events/{event_id}" in text
            assert "Alle geleenthede" in text
        async with http.get("/organizers/nobody") as answer:
            assert answer.status == 404
            assert "Hierdie organiseerder bestaan nie" in await answer.text()
        async with http.get(f"/events/{event_id}?lang=pt") as answer:
            text = await answer.text()
            assert "Transferência bancária" in text
            assert "A venda começa:" in text
            assert "frame-ancestors 'none'" in answer.headers["content-security-policy"]
