"""Take screenshots of every page, dark, light and on a phone: `make screenshots` (needs Chromium).

The script starts a shop on an embedded PostgreSQL in a temporary directory, and stops it at the end.
"""

from __future__ import annotations

import argparse
import asyncio
import io
import itertools
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from PIL import Image

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.dashboard.season import busy
from tests.dashboard.shop import World, open_shop

ARGUMENTS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]

DESKTOP = {"width": 1360, "height": 900}
PHONE = {"width": 390, "height": 844}


def pages(ids: dict[str, int]) -> dict[str, str]:
    return {
        "overview": "/",
        "events": "/dashboard/events",
        "event": f"/dashboard/events/{ids['event']}",
        "consequences": f"/dashboard/consequences/{ids['event']}",
        "jobs": "/dashboard/jobs",
        "job": f"/dashboard/jobs/{ids['job']}",
        "messages": "/dashboard/messages",
        "deliveries": "/dashboard/deliveries",
        "workflows": "/dashboard/workflows",
        "dead-letters": "/dashboard/dead-letters",
        "replay": f"/dashboard/dead-letters/replay?ids={ids['job']}",
        "schedules": "/dashboard/schedules",
        "ledger": "/dashboard/ledger",
        "account": "/dashboard/ledger/EUR/cash",
        "audit": "/dashboard/audit",
        "sources": "/dashboard/sources",
        "endpoints": "/dashboard/endpoints",
        "templates": "/dashboard/templates/admin-notice",
        "keys": "/dashboard/keys",
        "queues": "/dashboard/queues",
        "workers": "/dashboard/workers",
        "live": "/dashboard/live",
    }


LONG = ("events", "jobs", "messages", "deliveries", "workflows", "audit", "account")
"""Lists: the phone screenshot shows only the top."""
OWN_BOOKS = ("ledger", "account")
"""Pages of one organization; all other pages show the whole instance."""


async def shoot(world: World, ids: dict[str, int], out: Path, only: list[str]) -> None:
    from playwright.async_api import async_playwright

    chromium = shutil.which("chromium")
    if chromium is None:
        raise SystemExit("Chromium is not installed: apt-get install chromium")
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=chromium, args=ARGUMENTS)
        for look, size, scheme in (("light", DESKTOP, "light"), ("dark", DESKTOP, "dark"), ("phone", PHONE, "light")):
            context = await browser.new_context(viewport=size, color_scheme=scheme, device_scale_factor=1)  # type: ignore[arg-type]
            page = await context.new_page()
            await _log_in(page, world)
            for name, path in pages(ids).items():
                if only and name not in only:
                    continue
                await _choose(page, world, name)
                await page.goto(world.url + path)
                await page.wait_for_load_state("networkidle")
                await page.wait_for_timeout(1200)  # wait for the live connection
                shot = await page.screenshot(full_page=look == "phone" and name not in LONG)
                save(shot, out / f"{name}-{look}.png")
                print(f"{name}-{look}.png")
            await context.close()
        await browser.close()


def save(shot: bytes, path: Path) -> None:
    """Save with 256 colours: a third of the size, with no visible difference."""
    Image.open(io.BytesIO(shot)).convert("RGB").quantize(256).save(path, optimize=True)


async def traffic(world: World) -> None:
    """Buy something now and then, so that the charts show current data."""
    for number in itertools.count(1):
        await world.pay(f"B-{number}", seats=1 + number % 3)
        await asyncio.sleep(0.4)


async def _log_in(page: Any, world: World) -> None:
    await page.goto(await world.login("root@example.org"))
    await page.get_by_role("button", name="Log in").click()
    await page.wait_for_url(world.url + "/")


async def _choose(page: Any, world: World, name: str) -> None:
    value = "acme" if name in OWN_BOOKS else ""
    if value:
        await page.context.add_cookies([{"name": "onceward_organization", "value": value, "url": world.url}])
    else:
        await page.context.clear_cookies(name="onceward_organization")


async def run(database: str | None, folder: Path, out: Path, only: list[str]) -> None:
    world = await open_shop(database, data_dir=folder, environment="production")
    try:
        ids = await busy(world)
        async with asyncio.TaskGroup() as tasks:
            buying = tasks.create_task(traffic(world))
            await shoot(world, ids, out, only)
            buying.cancel()
    finally:
        await world.runtime.stop()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("docs/screenshots"))
    parser.add_argument("--database", help="an empty database to use instead of an embedded one")
    parser.add_argument("only", nargs="*", help="names of pages (default: all)")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)  # if root runs this, the server runs as another user
        asyncio.run(run(given.database, Path(folder), given.out, given.only))


if __name__ == "__main__":
    main()
