"""The JavaScript client in a real browser: Chromium, over both transports, through dropped connections."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID, uuid4

import pytest

from onceward import Onceward
from onceward.db import Database
from tests.browser import CHROMIUM_ARGUMENTS, NEEDS_CHROMIUM
from tests.live.conftest import Site, Start
from tests.live.test_queries import add_seat, shop_app

pytestmark = NEEDS_CHROMIUM

START = """
async ([token, transport]) => {
    const { LiveClient } = await import("/live/client.js");
    window.client = new LiveClient("/live", { token, transport: transport ?? undefined });
    window.states = [];
    window.client.onState((state) => window.states.push(state));
}
"""


@pytest.fixture
async def page() -> AsyncIterator[Any]:
    from playwright.async_api import async_playwright

    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=shutil.which("chromium"), args=CHROMIUM_ARGUMENTS)
        yield await browser.new_page()
        await browser.close()


def app() -> Onceward:
    made = shop_app()
    made.topic("news", replay=5)
    made.topic("cohort/{id}", presence=True)
    return made


async def open_page(page: Any, here: Site, organization: UUID, transport: str | None = None) -> None:
    # Any document of this origin will do; the client is imported into it.
    await page.goto(f"http://127.0.0.1:{here.web.port}/live/client.d.ts")
    await page.evaluate(START, [f"{organization}/ada/viewer", transport])


SUBSCRIBE = """
([event]) => { window.client.subscribe("occupancy", { event_id: event }, (state) => { window.shown = state; }); }
"""


@pytest.mark.parametrize("transport", [None, "sse"])
async def test_the_browser_shows_each_change_and_survives_a_dropped_connection(
    transport: str | None, page: Any, site: Start, shop: Database, organization: UUID
) -> None:
    here, event = await site(app()), uuid4()
    await open_page(page, here, organization, transport)
    await page.evaluate(SUBSCRIBE, [str(event)])
    await page.wait_for_function("window.shown?.data?.seats === 0")
    await add_seat(shop, organization, event)
    await page.wait_for_function("window.shown.data.seats === 1")
    for connection in list(here.node.hub.connections):
        connection.close()
    await here.node.endpoint.close_all()
    await add_seat(shop, organization, event)
    await page.wait_for_function("window.shown.data.seats === 2 && !window.shown.stale")
    assert "waiting" in await page.evaluate("window.states")
    version = None
    async with here.engine.transaction(organization=organization) as tx:
        await tx.execute("insert into shop.seats (organization_id, event_id) values ($1, $2)", organization, event)
        version = await tx.version()
    assert await page.evaluate("async (v) => { await client.waitFor(v); return shown.data.seats; }", version) == 3


async def test_topics_errors_and_presence_reach_the_page(
    page: Any, site: Start, shop: Database, organization: UUID
) -> None:
    here = await site(app())
    await open_page(page, here, organization)
    await page.evaluate(
        "window.news = []; client.follow('news', (data) => news.push(data)); client.present('cohort/1'); null"
    )
    await page.wait_for_function("client.state === 'open'")
    async with here.engine.transaction(organization=organization) as tx:
        await tx.broadcast("news", {"n": 1})
    await page.wait_for_function("news.length === 1 && news[0].n === 1")
    await page.evaluate(
        "client.subscribe('presence', { place: 'cohort/1' }, (state) => { window.there = state.data; }); null"
    )
    await page.wait_for_function("there?.users[0]?.user_id === 'ada'")
    code = await page.evaluate("client.fetch('nope').catch((error) => error.code)")
    assert code == "unknown_query"
    assert await page.evaluate("client.fetch('everything')") == []


async def test_the_browser_tries_again_where_nobody_listens(page: Any, site: Start, organization: UUID) -> None:
    here = await site(app())
    await open_page(page, here, organization)
    await page.evaluate(
        """async () => {
            const { LiveClient } = await import("/live/client.js");
            window.tried = [];
            const lost = new LiveClient("http://127.0.0.1:9/live");
            lost.onState((state) => window.tried.push(state));
            lost.subscribe("occupancy", {}, () => {});
        }"""
    )
    await page.wait_for_function("tried.filter((state) => state === 'waiting').length > 1")


async def test_reconnecting_clients_do_not_come_back_in_step(page: Any, site: Start, organization: UUID) -> None:
    here = await site(app())
    await open_page(page, here, organization)
    delays = await page.evaluate(
        """async () => {
            const { reconnectDelay } = await import("/live/client.js");
            return [0, 3, 30].map((n) => [reconnectDelay(n, () => 0), reconnectDelay(n, () => 1)]);
        }"""
    )
    assert delays == [[62.5, 250], [500, 2000], [7500, 30000]]
