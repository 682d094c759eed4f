"""The whole demo, as every kind of person who uses it: no link is dead, no page reports an error or is hard to read."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from onceward.process.process import Process
from tests.browser import CHROMIUM_ARGUMENTS, NEEDS_CHROMIUM
from tests.demo.walking import NO_PAGE, Walker, token_of, walk, walkers

LOOKS: tuple[tuple[int, str], ...] = ((1280, "light"), (390, "dark"))


@pytest.mark.slow  # about 90 seconds
async def test_no_link_of_the_demo_is_dead_for_anybody(demo: Process) -> None:
    everybody = walkers()
    walks = [await walk(demo, each) for each in everybody]
    dead = [f"{who.name}: {line}" for who, walked in zip(everybody, walks, strict=True) for line in walked.dead]
    assert dead == []
    pages = {kind for walked in walks for kind in walked.seen}
    assert len(pages) > 120, "the walk does not reach the desks any more"


@pytest.mark.slow
@NEEDS_CHROMIUM[1]
@pytest.mark.parametrize("walker", walkers(), ids=lambda each: each.name)
@pytest.mark.browser
async def test_no_page_of_the_demo_reports_an_error_or_is_inaccessible(demo: Process, walker: Walker) -> None:
    from axe_core_python.async_playwright import Axe
    from playwright.async_api import async_playwright

    paths = [path for path in (await walk(demo, walker)).seen.values() if not NO_PAGE.search(path.partition("?")[0])]
    faults: list[str] = []
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=shutil.which("chromium"), args=CHROMIUM_ARGUMENTS)
        for width, scheme in LOOKS:
            size = {"width": width, "height": 900}
            options: dict[str, Any] = {"viewport": size, "color_scheme": scheme, "bypass_csp": True}
            context = await browser.new_context(**options, reduced_motion="reduce")
            page: Any = await context.new_page()
            page.set_default_timeout(20_000)
            here = _report(page, faults)
            if walker.email:
                await page.goto(f"{demo.web.url}/login?token={await token_of(demo, walker)}")
                await page.get_by_role("button", name="Log in").click()
                await page.wait_for_load_state()
            for number, path in enumerate(paths):
                here[0] = f"{path} {width} {scheme}"
                reply = await page.goto(demo.web.url + path)
                if reply is None or "html" not in reply.headers.get("content-type", ""):
                    continue
                await page.evaluate("document.querySelectorAll('main details').forEach(each => each.open = true)")
                wider = await page.evaluate("document.documentElement.scrollWidth - innerWidth")
                if wider > 1:
                    faults.append(f"{here[0]}: scrolls sideways by {wider} px")
                found = await Axe().run(page, options={"resultTypes": ["violations"]})
                faults += [f"{here[0]}: {each['id']}: {each['nodes'][0]['html'][:160]}" for each in found["violations"]]
                if folder := os.environ.get("SCREENSHOTS"):
                    await page.screenshot(
                        path=str(Path(folder) / f"{walker.name}-{width}-{number:03}.png"), full_page=True
                    )
            await context.close()
        await browser.close()
    assert faults == []


def _report(page: Any, faults: list[str]) -> list[str]:
    """Add the errors of a page to `faults`, with the first text of the returned list: where the browser is."""
    here = [""]

    def said(message: Any) -> None:
        if message.type == "error":
            faults.append(f"{here[0]}: {message.text}")

    page.on("pageerror", lambda error: faults.append(f"{here[0]}: {error}"))
    page.on("console", said)
    return here
