"""The dashboard in Debian's Chromium: what an operator does at three in the morning, and what others cannot."""

from __future__ import annotations

import asyncio
import re
from typing import Any

from tests.browser import NEEDS_CHROMIUM
from tests.dashboard.conftest import OpenPage
from tests.dashboard.season import busy
from tests.dashboard.shop import World, settled

pytestmark = NEEDS_CHROMIUM


async def dead_crm_job(world: World, event: int) -> int:
    async with asyncio.timeout(20):
        while True:
            found = await world.runtime.database.fetchval(
                "select w.id from onceward.work w join onceward.jobs j using (id)"
                " where j.caused_by = $1 and w.dead_reason is not null",
                event,
            )
            if found is not None:
                return int(found)
            await asyncio.sleep(0.05)


async def expect(page: Any) -> Any:
    from playwright.async_api import expect as made

    made.set_options(timeout=15_000)
    return made


async def test_an_event_arrives_live_fails_is_replayed_from_its_consequences_and_succeeds(
    world: World, open_page: OpenPage
) -> None:
    page = await open_page("otto@acme.example")
    check = await expect(page)
    await page.goto(world.url + "/dashboard/events")
    await check(page.get_by_text("No events yet")).to_be_visible()
    await check(page.locator("#link-state")).to_have_text("Live")

    world.weather.crm_works = False
    event = await world.pay("A-1")
    row = page.locator(f"tr[data-row='{event}']")
    await check(row).to_be_visible()
    await check(row.locator(".state")).to_have_text("success")
    dead = await dead_crm_job(world, event)

    await row.locator(".id a").click()
    await page.get_by_role("link", name="Consequences", exact=True).click()
    failed = page.locator("svg.tree a.is-dead-letter")
    await check(failed).to_have_count(1)
    await check(failed).to_contain_text("update_crm")
    await check(page.locator("#tree-text")).to_contain_text(f"job update_crm  #{dead}  [dead letter]")

    await page.get_by_role("link", name="Replay the dead letter").click()
    await check(page.get_by_text("A dry run:")).to_contain_text("1 would be replayed")
    # The app of this test is made inside a function, so no other process can import and rehearse it.
    await check(page.get_by_text("could not be rehearsed")).to_be_visible()
    world.weather.crm_works = True
    await page.get_by_label("Why?").fill("the CRM is back")
    await page.get_by_role("button", name="Replay 1").click()
    await check(page.locator(f"tr[data-row='{dead}'] .state")).to_have_text("success")
    await check(page.get_by_text("It has ended.")).to_be_visible()

    await page.goto(f"{world.url}/dashboard/consequences/{event}")
    await check(page.locator("svg.tree a.is-dead-letter")).to_have_count(0)
    assert world.weather.seen.count(dead) == 3
    entry = await world.runtime.database.fetchrow(
        "select actor, reason from onceward.audit_log where action = 'dead_letter.replay' and entity_id = $1", str(dead)
    )
    assert entry is not None
    assert entry["reason"] == "the CRM is back"
    assert page.problems == []


async def test_a_viewer_sees_the_dead_letter_and_cannot_replay_it(world: World, open_page: OpenPage) -> None:
    world.weather.crm_works = False
    dead = await dead_crm_job(world, await world.pay("A-2"))
    page = await open_page("vera@acme.example")
    check = await expect(page)
    await page.goto(world.url + "/dashboard/dead-letters")
    await check(page.get_by_role("heading", name="CardTerminalOffline")).to_be_visible()
    await check(page.get_by_role("link", name="Replay", exact=True)).to_be_hidden()
    await page.goto(f"{world.url}/dashboard/dead-letters/replay?ids={dead}")
    await check(page.get_by_role("heading", name="Not allowed")).to_be_visible()
    answer = await page.evaluate(
        """async ([id]) => {
            const csrf_token = (new DOMParser().parseFromString(await (await fetch("/")).text(), "text/html"))
                .querySelector("meta[name=csrf]").content;
            const body = new URLSearchParams({ csrf_token, ids: id, reason: "because I can" });
            return (await fetch("/dashboard/dead-letters/replay", { method: "POST", body })).status;
        }""",
        [str(dead)],
    )
    assert answer == 403
    assert await settled(world.runtime.database, dead) == "dead_letter"


async def test_two_organizations_do_not_see_each_other_not_even_live(world: World, open_page: OpenPage) -> None:
    ours = await open_page("otto@acme.example")
    theirs = await open_page("bert@bolt.example")
    check = await expect(ours)
    for page in (ours, theirs):
        await page.goto(world.url + "/dashboard/events")
        await check(page.locator("#link-state")).to_have_text("Live")
    event = await world.pay("A-3")
    await check(ours.locator(f"tr[data-row='{event}']")).to_be_visible()
    other = await world.pay("B-1", organization=world.bolt, source="bolt")
    await check(theirs.locator(f"tr[data-row='{other}']")).to_be_visible()
    await check(theirs.locator(f"tr[data-row='{event}']")).to_have_count(0)
    await check(ours.locator(f"tr[data-row='{other}']")).to_have_count(0)
    await theirs.goto(f"{world.url}/dashboard/events/{event}")
    await check(theirs.get_by_role("heading", name="Not found")).to_be_visible()
    await theirs.goto(f"{world.url}/dashboard/consequences/{event}")
    await check(theirs.get_by_role("heading", name="Not found")).to_be_visible()


async def test_every_page_is_accessible_in_dark_and_light_and_reports_no_error(
    world: World, open_page: OpenPage
) -> None:
    from axe_core_python.async_playwright import Axe

    ids = await busy(world)
    axe = Axe()
    faults: list[str] = []
    for scheme, size in (("light", (1280, 900)), ("dark", (390, 844))):
        page = await open_page(
            "root@example.org",
            color_scheme=scheme,
            viewport={"width": size[0], "height": size[1]},
            reduced_motion="reduce",
            bypass_csp=True,
        )
        for path in (
            "/",
            "/dashboard/events",
            "/dashboard/jobs?state=dead_letter",
            "/dashboard/messages",
            "/dashboard/deliveries",
            "/dashboard/dead-letters",
            f"/dashboard/dead-letters/replay?ids={ids['job']}",
            f"/dashboard/jobs/{ids['job']}",
            f"/dashboard/consequences/{ids['event']}",
            "/dashboard/schedules",
            "/dashboard/schedules/expire_holds",
            "/dashboard/sources",
            "/dashboard/endpoints",
            "/dashboard/keys",
            "/dashboard/members",
            "/dashboard/templates/admin-notice",
            "/dashboard/ledger",
            "/dashboard/audit",
            "/dashboard/queues",
            "/dashboard/workers",
            "/dashboard/live",
            "/dashboard/search?q=nothing",
            "/dashboard/organizations",
        ):
            await page.goto(world.url + path)
            await page.evaluate("document.querySelectorAll('main details').forEach(each => each.open = true)")
            found = await axe.run(page, options={"resultTypes": ["violations"]})
            faults += [
                f"{path} ({scheme}): {each['id']}: {node['html'][:160]}"
                for each in found["violations"]
                for node in each["nodes"][:2]
            ]
        wide = await page.evaluate("document.documentElement.scrollWidth > innerWidth + 1")
        assert not wide, "a phone must not scroll sideways"
    assert faults == []


async def test_shortcuts_and_colours(world: World, open_page: OpenPage) -> None:
    page = await open_page("root@example.org", color_scheme="light")
    check = await expect(page)
    await page.keyboard.press("?")
    await check(page.get_by_role("heading", name="Keyboard shortcuts")).to_be_visible()
    await page.keyboard.press("Escape")
    await page.keyboard.press("g")
    await page.keyboard.press("q")
    await page.wait_for_url(re.compile("/dashboard/queues$"))
    await page.keyboard.press("/")
    await check(page.locator("#search")).to_be_focused()
    await page.keyboard.type("zzz")
    await page.keyboard.press("Enter")
    await check(page.get_by_text("Nothing is called “zzz”")).to_be_visible()
    async with page.expect_response(lambda reply: reply.url.endswith("/dashboard/theme")) as answered:
        await page.get_by_role("button", name="Switch between dark and light").click()
    assert (await answered.value).status == 204
    await page.reload()
    await check(page.locator("html")).to_have_attribute("data-theme", "dark")
    assert page.problems == []


async def test_a_queue_is_paused_and_resumed_by_its_button(world: World, open_page: OpenPage) -> None:
    page = await open_page("root@example.org")
    check = await expect(page)
    await page.goto(world.url + "/dashboard/queues")
    row = page.locator("tr", has_text="default")
    await row.get_by_role("button", name="Pause").click()
    await check(page.get_by_text("Queue default is paused")).to_be_visible()
    await page.goto(world.url + "/")
    await check(page.get_by_role("link", name="Queue default is paused")).to_be_visible()
    await page.goto(world.url + "/dashboard/queues")
    await page.locator("tr", has_text="default").get_by_role("button", name="Resume").click()
    await check(page.get_by_text("Queue default is resumed.")).to_be_visible()
