"""A visitor walks every app of the demo to its end, also after it has run for an hour, and at any time of day.

`ONCEWARD_TEST_DEMO_S=3600 pytest -m slow tests/demo/test_visitors.py` lets it run for a real hour before the walk.
`ONCEWARD_TEST_DEMO_URL=http://127.0.0.1:8400` walks a demo that runs already.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.browser import CHROMIUM_ARGUMENTS, NEEDS_CHROMIUM
from tests.demo import visiting
from tests.demo.conftest import start_demo

pytestmark = [*NEEDS_CHROMIUM, pytest.mark.slow, pytest.mark.timeout(5400)]

VISITS = (
    visiting.buy_and_refund,
    visiting.enrol_and_certify,
    visiting.book,
    visiting.generate,
    visiting.help_a_user,
)


@pytest.fixture
async def url(database_url: str, tmp_path: Path) -> AsyncIterator[str]:
    """The address of a demo that has run for some time."""
    if running := os.environ.get("ONCEWARD_TEST_DEMO_URL"):
        yield running
        return
    process = await start_demo(database_url, tmp_path)
    await asyncio.sleep(float(os.environ.get("ONCEWARD_TEST_DEMO_S", "60")))
    yield process.web.url if process.web else ""
    await process.stop()


async def test_a_visitor_walks_every_app_to_its_end(url: str) -> None:
    from playwright.async_api import async_playwright

    faults: list[str] = []
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=shutil.which("chromium"), args=CHROMIUM_ARGUMENTS)
        for visit in VISITS:
            context = await browser.new_context(viewport={"width": 1280, "height": 900})
            page: Any = await context.new_page()
            page.set_default_timeout(60_000)
            page.on("pageerror", lambda error, name=visit.__name__: faults.append(f"{name}: {error}"))
            try:
                await visit(page, url, f"v{secrets.token_hex(3)}")
            except Exception as error:
                text = await page.locator("body").inner_text()
                faults.append(f"{visit.__name__} at {page.url}: {error}\n{text[:1500]}")
            await context.close()
        await browser.close()
    assert not faults, "\n\n".join(faults)
