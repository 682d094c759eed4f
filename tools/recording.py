"""Record the moving picture of the README: `make recording` (needs Chromium).

The script starts the demo in a temporary directory, buys two seats in a browser, kills the demo with `kill -9` on the payment page,
starts it again, pays, and follows the payment in the dashboard. The result is an animated WebP file.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import io
import os
import re
import shutil
import signal
import socket
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from PIL import Image, ImageDraw, ImageFont

ROOT = Path(__file__).parents[1]
SIZE = {"width": 1120, "height": 660}
STRIP_PX = 44
STEP_S = 0.2
"""Frames are at least this far apart."""
LONGEST_S = 2.2
"""A picture that does not change is shown no longer than this, except the last one."""
QUALITY = 78


@dataclass
class Film:
    """The frames of a page, each with its time and the caption that was valid."""

    caption: str = ""
    frames: list[tuple[float, bytes, str]] = field(default_factory=list[tuple[float, bytes, str]])

    async def watch(self, page: Any) -> None:
        session = await page.context.new_cdp_session(page)

        async def keep(frame: dict[str, Any]) -> None:
            self.frames.append((time.monotonic(), base64.b64decode(frame["data"]), self.caption))
            await session.send("Page.screencastFrameAck", {"sessionId": frame["sessionId"]})

        session.on("Page.screencastFrame", lambda frame: asyncio.ensure_future(keep(frame)))
        await session.send("Page.startScreencast", {"format": "png", "everyNthFrame": 1})

    def say(self, caption: str) -> None:
        """Set the caption, from the current picture on."""
        self.caption = caption
        if self.frames:
            self.frames.append((time.monotonic(), self.frames[-1][1], caption))

    def save(self, path: Path) -> None:
        pictures: list[Image.Image] = []
        durations_ms: list[int] = []
        shown: list[tuple[float, bytes, str]] = []
        for frame in self.frames:
            if shown and frame[0] - shown[-1][0] < STEP_S and frame[2] == shown[-1][2]:
                shown[-1] = (shown[-1][0], frame[1], frame[2])
            elif not shown or frame[1:] != shown[-1][1:]:
                shown.append(frame)
        for index, (at, data, caption) in enumerate(shown):
            until = shown[index + 1][0] if index + 1 < len(shown) else at + 3
            pictures.append(captioned(data, caption))
            durations_ms.append(int(min(until - at, 3.0 if index + 1 == len(shown) else LONGEST_S) * 1000))
        first, *others = pictures
        options: dict[str, Any] = {"quality": QUALITY, "method": 4}
        first.save(path, save_all=True, append_images=others, duration=durations_ms, loop=0, **options)
        seconds = sum(durations_ms) / 1000
        print(f"{path}: {len(pictures)} frames, {seconds:.0f} s, {path.stat().st_size / 1024:.0f} KiB")


def captioned(data: bytes, caption: str) -> Image.Image:
    """Return the picture of the page above a strip with the caption."""
    page = Image.open(io.BytesIO(data)).convert("RGB").resize((SIZE["width"], SIZE["height"]))
    whole = Image.new("RGB", (SIZE["width"], SIZE["height"] + STRIP_PX), "#1f2733")
    whole.paste(page, (0, 0))
    draw = ImageDraw.Draw(whole)
    draw.text((20, SIZE["height"] + 10), caption, font=ImageFont.load_default(21), fill="#ffffff")
    return whole


class Demo:
    """The demo as `make demo` runs it, with its data in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        with socket.create_server(("127.0.0.1", 0)) as listening:
            self.port = listening.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self._process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        clean = {name: value for name, value in os.environ.items() if not name.startswith("ONCEWARD_")}
        env = clean | {"ONCEWARD_DATA_DIR": str(self.folder), "ONCEWARD_PORT": str(self.port)}
        program = Path(sys.executable).with_name("onceward")
        with (self.folder / "demo.log").open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                program, "up", "onceward_apps.demo:app", cwd=ROOT, env=env, stdout=log, stderr=log
            )
        await self._until_ready()

    async def _until_ready(self) -> None:
        deadline = time.monotonic() + 90
        while time.monotonic() < deadline:
            try:
                reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
                writer.write(b"GET /readyz HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n")
                answer = await reader.readline()
                writer.close()
                if b"200" in answer:
                    return
            except OSError:
                pass  # not listening yet
            await asyncio.sleep(0.2)
        raise SystemExit(f"the demo was not ready within 90 s:\n{(self.folder / 'demo.log').read_text()[-3000:]}")

    async def end(self, how: signal.Signals) -> None:
        if self._process is not None and self._process.returncode is None:
            self._process.send_signal(how)
            await self._process.wait()


async def play(page: Any, film: Film, demo: Demo) -> None:
    """Do what a visitor of the demo does. The pauses are for those who watch."""
    film.say("make demo: five apps, one process, one PostgreSQL")
    await page.goto(f"{demo.url}/start")
    await page.wait_for_timeout(2000)
    await page.get_by_role("link", name="Ticketing").click()
    await page.get_by_role("link").filter(has_text="Choose").or_(page.locator("main a")).first.click()
    film.say("Choose seats: every browser sees the map change")
    seats = page.get_by_role("button", name=", free")
    await seats.first.wait_for()
    for _seat in range(2):
        await seats.nth(await seats.count() // 2).click()
        await page.wait_for_timeout(900)
    await page.get_by_label("Email address for the tickets").fill("ada@example.com")
    await page.get_by_label("Name").fill("Ada")
    await page.get_by_role("button", name="Continue to payment").click()
    pay = page.get_by_role("button", name=re.compile("^Pay "))
    await pay.wait_for()
    film.say("kill -9 of everything, while the buyer is about to pay")
    await demo.end(signal.SIGKILL)
    await page.wait_for_timeout(1500)
    await demo.start()
    await page.reload()  # the payment service runs in the same process
    film.say("make demo again, and pay")
    await page.wait_for_timeout(800)
    await pay.click()
    await page.get_by_text("Order confirmed").wait_for(timeout=60_000)
    film.say("Two tickets, paid once")
    await page.wait_for_timeout(2200)
    await page.goto(f"{demo.url}/start")
    await page.get_by_role("button", name="Open the dashboard").click()
    film.say("The dashboard: is it healthy, what failed, what did an event cause?")
    await page.wait_for_timeout(3000)
    await page.goto(f"{demo.url}/dashboard/events?type=checkout.session.completed")
    await page.wait_for_timeout(1200)
    await page.locator("main table a").first.click()
    await page.get_by_role("link", name="Consequences").first.click()
    film.say("Everything that one payment caused, each of it once")
    await page.wait_for_timeout(3000)


async def record(target: Path, folder: Path) -> None:
    from playwright.async_api import async_playwright

    sys.path.insert(0, str(ROOT))
    from tests.browser import CHROMIUM_ARGUMENTS

    chromium = shutil.which("chromium")
    if chromium is None:
        raise SystemExit("Chromium is not installed: apt-get install chromium")
    demo, film = Demo(folder), Film()
    await demo.start()
    await asyncio.sleep(6)  # the simulated people have done something
    try:
        async with async_playwright() as playwright:
            browser = await playwright.chromium.launch(executable_path=chromium, args=CHROMIUM_ARGUMENTS)
            page = await browser.new_page(viewport=SIZE, color_scheme="light")
            await page.goto(f"{demo.url}/start")
            await film.watch(page)
            try:
                await play(page, film, demo)
            except Exception:
                await page.screenshot(path=folder / "failed.png")
                print(f"the page where it ended: {folder / 'failed.png'}", file=sys.stderr)
                raise
            finally:
                await browser.close()
    finally:
        await demo.end(signal.SIGINT)
    film.save(target)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "screenshots" / "demo.webp")
    arguments = parser.parse_args()
    place = Path(tempfile.mkdtemp(prefix="onceward-recording-"))
    asyncio.run(record(arguments.out, place))
    shutil.rmtree(place, ignore_errors=True)
