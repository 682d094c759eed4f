"""Take screenshots of every page, dark, light and on a phone: `make screenshots` (needs Chromium).

The script starts a shop on an embedded PostgreSQL in a temporary directory, and stops it at the end. With `--demo` it
takes the pages of the five apps instead: their desks and their public pages, on a desktop and on a phone.
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
from tests.demo.conftest import start_demo
from tests.demo.walking import NO_PAGE, Walker, token_of, walk

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
DEMO_WALKERS = (
    Walker("visitor", starts=("/start", "/events", "/learn", "/coursegen")),
    Walker(
        "manager", "rita@riverside.example", "riverside", "member", ("ticketing.manager",), ("/dashboard/ticketing",)
    ),
    Walker("school", "leo@lakeside.example", "lakeside", "operator", (), ("/dashboard/learning",)),
    Walker(
        "reception", "hana@harbour.example", "harbour-clinic", "member", ("clinic.reception",), ("/dashboard/clinic",)
    ),
    Walker("support", "nuno@nexfin.example", "nexfin", "member", ("engagement.support",), ("/dashboard/engagement",)),
    Walker(
        "editor", "edda@lighthouse.example", "lighthouse", "member", ("coursegen.editor",), ("/dashboard/coursegen",)
    ),
)


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


async def shoot_demo(out: Path, folder: Path, database: str | None) -> None:
    """Start the demo, and take every kind of page of the desks and of the public pages that has no filter."""
    from playwright.async_api import async_playwright

    process = await start_demo(database, folder)
    assert process.web is not None
    try:
        async with async_playwright() as playwright:
            browser = await playwright.chromium.launch(executable_path=shutil.which("chromium"), args=ARGUMENTS)
            for walker in DEMO_WALKERS:
                seen = (await walk(process, walker)).seen
                paths = {name: path for kind, path in seen.items() if (name := _name(kind, walker))}
                for look, size in (("light", DESKTOP), ("phone", PHONE)):
                    context = await browser.new_context(viewport=size, color_scheme="light", device_scale_factor=1)  # type: ignore[arg-type]
                    page = await context.new_page()
                    if walker.email:
                        await page.goto(f"{process.web.url}/login?token={await token_of(process, walker)}")
                        await page.get_by_role("button", name="Log in").click()
                        await page.wait_for_load_state()
                    for name, path in paths.items():
                        await page.goto(process.web.url + path)
                        await page.wait_for_timeout(600)  # wait for the live connection
                        save(await page.screenshot(), out / f"{name}-{look}.png")
                        print(f"{name}-{look}.png")
                    await context.close()
            await browser.close()
    finally:
        await process.stop()


def _name(kind: str, walker: Walker) -> str:
    """Return the name of the screenshot of a kind of page, or nothing for one that is not shown."""
    if "?" in kind or NO_PAGE.search(kind) or "/do/" in kind:
        return ""
    if walker.email:
        desk = walker.starts[0]
        return (
            "desk-" + kind.removeprefix("/dashboard/").replace("/", "-").replace("-*", "")
            if kind.startswith(desk)
            else ""
        )
    public = ("/events", "/learn", "/coursegen", "/start", "/preferences")
    return "public-" + kind.strip("/").replace("/", "-").replace("*", "one") if kind.startswith(public) else ""


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
    parser.add_argument("--demo", action="store_true", help="the desks and public pages of the five apps")
    parser.add_argument("only", nargs="*", help="names of pages (default: all)")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)  # if root runs this, the server runs as another user
        if given.demo:
            asyncio.run(shoot_demo(given.out, Path(folder), given.database))
        else:
            asyncio.run(run(given.database, Path(folder), given.out, given.only))


if __name__ == "__main__":
    main()
