"""The demonstration: courses of every fate end as they should, and the books agree."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from uuid import UUID

import aiohttp
from pydantic import SecretStr

from onceward import Onceward
from onceward.context import Context
from onceward.process.process import Process
from onceward.runtime import FEATURES
from onceward.settings import Settings
from onceward.trust import verify
from onceward.web.settings import WebSettings
from onceward.work.settings import WorkSettings
from onceward_apps.coursegen import app as coursegen
from onceward_apps.coursegen import checks
from onceward_apps.coursegen.app import CoursegenSettings
from onceward_apps.coursegen.demo import FATES, CoursegenDemo
from onceward_apps.coursegen.demo_pages import router as demo_pages

EXPECTED = {
    "is written": ("completed", None),
    "meets a rate limit": ("completed", None),
    "is refused by the model": ("failed", "content_refused"),
    "breaks and is resumed": ("completed", None),
    "runs out of money": ("failed", "budget_exceeded"),
}


async def test_courses_of_every_fate_end_as_they_should(database_url: str, tmp_path: Path) -> None:
    settings = Settings(database_url=SecretStr(database_url), data_dir=tmp_path, port=0, pool_max=8).using(
        WorkSettings(poll_interval_ms=100), WebSettings(jwt_secret=SecretStr("j" * 64))
    )
    demos: list[CoursegenDemo] = []

    def alone(context: Context) -> CoursegenDemo:
        demos.append(CoursegenDemo(context, crowd=False, pace_s=0.0))
        return demos[-1]

    app = Onceward("demo")
    app.include(coursegen)
    app.part("coursegen demo", alone)
    app.routes(demo_pages)
    coursegen.use_settings(CoursegenSettings.model_validate({"call_wait_s": 0.0}))
    process = Process(app, settings, FEATURES)
    await process.start()

    async def ended(course: UUID) -> tuple[str, str | None]:
        deadline = time.monotonic() + 30
        while True:
            row = await process.database.fetchrow(
                "select status, error_code from coursegen.courses where id = $1", course
            )
            assert row is not None
            if row["status"] not in ("queued", "generating"):
                return row["status"], row["error_code"]
            assert time.monotonic() < deadline
            await asyncio.sleep(0.05)

    try:
        [demo] = demos
        await demo.set_up()  # as at a second start
        assert set(EXPECTED) == {fate for fate, _ in FATES}
        async with aiohttp.ClientSession(process.web.url) as http:
            async with http.get("/start/coursegen", allow_redirects=False) as answer:
                path, _, token = answer.headers["Location"].partition("#token=")
            assert path == "/coursegen"
            async with http.get("/api/coursegen/courses", headers={"Authorization": f"Bearer {token}"}) as answer:
                assert answer.status == 200
        for fate, expected in EXPECTED.items():
            course = await demo.visit(fate)
            assert course is not None
            assert await ended(course) == expected, fate
        assert [result for result in await verify(process.database, checks.CHECKS) if not result.ok] == []
    finally:
        await process.stop()
