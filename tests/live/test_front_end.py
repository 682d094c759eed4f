"""A React page in Chromium that uses the npm package and the types that `onceward types` printed."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest

from onceward.db import Database
from tests.browser import CHROMIUM_ARGUMENTS, NEEDS_CHROMIUM
from tests.child import ROOT
from tests.live.conftest import Start
from tests.live.frontend_app import app
from tests.live.test_queries import add_seat
from tests.npm import NEEDS_NPM, installed_modules

pytestmark = [
    *NEEDS_CHROMIUM,
    NEEDS_NPM,
]

FRONT_END = Path(__file__).parent / "frontend"
SOURCES = ("page.tsx", "tsconfig.json")
HTML = '<!doctype html><title>Seats</title><div id="root"></div>'
TIMEOUT_MS = 60_000


@pytest.fixture(scope="session")
def modules() -> Path:
    return installed_modules(FRONT_END)


async def run(*command: str | Path, cwd: Path) -> str:
    """Run a program and return what it printed."""
    process = await asyncio.create_subprocess_exec(
        *command,
        cwd=cwd,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    printed, errors = await process.communicate()
    assert process.returncode == 0, f"{command}: {printed.decode()}{errors.decode()}"
    return printed.decode()


@pytest.fixture
async def script(modules: Path, tmp_path: Path) -> str:
    """Return the page's program, checked by the TypeScript compiler and bundled, with freshly printed types."""
    for name in SOURCES:
        shutil.copy(FRONT_END / name, tmp_path)
    (tmp_path / "node_modules").symlink_to(modules)
    types = await run(sys.executable, "-m", "onceward", "types", "tests.live.frontend_app:app", cwd=ROOT)
    (tmp_path / "types.ts").write_text(types)
    bundle = ("page.tsx", "--bundle", "--format=esm", "--jsx=automatic", "--minify", "--log-level=error")
    checked, program = await asyncio.gather(
        run(modules / ".bin" / "tsc", "-p", ".", cwd=tmp_path),
        run(modules / ".bin" / "esbuild", *bundle, '--define:process.env.NODE_ENV="production"', cwd=tmp_path),
    )
    assert checked == ""
    return program


@pytest.fixture
async def page() -> AsyncIterator[Any]:
    from playwright.async_api import async_playwright

    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=shutil.which("chromium"), args=CHROMIUM_ARGUMENTS)
        made = await browser.new_page()
        made.set_default_timeout(TIMEOUT_MS)
        yield made
        await browser.close()


async def test_a_react_page_shows_each_commit_and_reconnects_after_a_cut(
    script: str, page: Any, site: Start, shop: Database, organization: UUID
) -> None:
    here, event = await site(app), uuid4()
    url = f"http://127.0.0.1:{here.web.port}"
    problems: list[str] = []
    page.on("pageerror", lambda error: problems.append(str(error)))
    await page.route(f"{url}/", lambda route: route.fulfill(body=HTML, content_type="text/html"))
    await page.route(f"{url}/page.js", lambda route: route.fulfill(body=script, content_type="text/javascript"))
    await page.goto(f"{url}/")
    await page.evaluate(
        "async ([event, token]) => { window.shown = (await import('/page.js')).start(event, token); }",
        [str(event), f"{organization}/ada/viewer"],
    )
    await page.get_by_text("0 seats, 0 sold", exact=True).wait_for()

    async with here.engine.transaction(organization=organization) as tx:
        await tx.execute(
            "insert into shop.seats (organization_id, event_id, status) values ($1, $2, 'sold')", organization, event
        )
    await page.get_by_text("1 seats, 1 sold", exact=True).wait_for()

    await here.node.endpoint.close_all()
    await add_seat(shop, organization, event)
    await page.get_by_text("2 seats, 1 sold", exact=True).wait_for()
    states = await page.evaluate("shown.states")
    assert "waiting" in states
    assert states[-1] == "open"
    assert problems == []
