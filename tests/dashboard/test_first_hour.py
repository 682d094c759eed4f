"""What a new user meets on the pages in the first hour."""

from __future__ import annotations

import aiohttp

from tests.dashboard.shop import World

BROWSER = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}


async def test_an_unknown_address_is_a_page_for_a_browser_and_a_problem_for_a_program(world: World) -> None:
    async with aiohttp.ClientSession(world.url) as http:
        for path in ("/nowhere", "/dashboard/nowhere"):
            async with http.get(path, headers=BROWSER) as reply:
                assert (reply.status, reply.content_type) == (404, "text/html")
                assert "Not Found" in await reply.text()
        for path, headers in (("/nowhere", {}), ("/api/v1/nowhere", BROWSER)):
            async with http.get(path, headers=headers) as reply:
                assert (reply.status, reply.content_type) == (404, "application/problem+json")


async def test_choosing_an_organization_stays_in_the_section(world: World, log_in) -> None:
    admin = await log_in("root@example.org")

    async def lands_on(back: str, slug: str) -> str:
        _, _, headers = await admin.post("/dashboard/organizations", organization=slug, back=back)
        return headers["Location"]

    _, page, _ = await admin.get("/dashboard/ledger")
    assert '<input type="hidden" name="back" value="/dashboard/ledger">' in page
    assert await lands_on("/dashboard/ledger", "acme") == "/dashboard/ledger"
    assert await lands_on("/dashboard/workers", "acme") == "/", "workers belong to no organization"
    assert await lands_on("https://evil.example/", "acme") == "/"
    assert await lands_on("//evil.example/", "acme") == "/"


async def test_the_login_card_is_in_the_middle(world: World, open_page) -> None:
    page = await open_page("root@example.org")
    await page.context.clear_cookies()
    for width in (1280, 390):
        await page.set_viewport_size({"width": width, "height": 800})
        await page.goto(f"{world.url}/login")
        box = await page.locator("main.card").bounding_box()
        assert abs(box["x"] + box["width"] / 2 - width / 2) < 2
        assert abs(box["y"] + box["height"] / 2 - 400) < 2


async def test_long_names_stay_inside_their_cards_and_bars_inside_the_panel(world: World, open_page) -> None:
    db = world.runtime.database
    root = await db.fetchval("select onceward.enqueue($1, '{}')", "w" * 120)
    child = await db.fetchval("select onceward.enqueue($1, '{}')", "M" * 120)
    await db.execute("update onceward.jobs set caused_by = $1 where id = $2", root, child)
    page = await open_page("root@example.org", viewport={"width": 1280, "height": 900})
    await page.goto(f"{world.url}/dashboard/consequences/{root}")
    cut = await page.evaluate(
        "[...document.querySelectorAll('.tree-card > svg')].every(s => getComputedStyle(s).overflow === 'hidden')"
    )
    assert cut
    bars = await page.evaluate(
        "[...document.querySelectorAll('td.fall-bar svg')].map(each => [each.getBoundingClientRect(),"
        " each.closest('.scroll').getBoundingClientRect()].map(box => [box.width, box.right]))"
    )
    assert len(bars) == 2
    for (width, right), (_, panel_right) in bars:
        assert width > 200
        assert right <= panel_right + 1
    assert "+0 " not in await page.locator("svg.tree").text_content()
    assert page.problems == []
