"""The demo: every fate of a student works, a second start finds what exists, and the invariants hold."""

from __future__ import annotations

from pathlib import Path

import aiohttp
from pydantic import SecretStr

from onceward import Onceward
from onceward.context import Context
from onceward.process.process import Process
from onceward.runtime import FEATURES
from onceward.settings import Settings
from onceward.testing import until
from onceward.trust import verify
from onceward.work.settings import WorkSettings
from onceward_apps.learning import app as learning
from onceward_apps.learning.app import LearningSettings
from onceward_apps.learning.checks import CHECKS
from onceward_apps.learning.demo import COURSE, FATES, LearningDemo
from onceward_apps.learning.surveys import survey_url


async def answer_as_a_visitor(demo: LearningDemo) -> None:
    """The link to a survey leads to the simulated service, and its page sends the answers."""
    db, cohort = demo.engine.db, demo.cohorts[COURSE]
    enrollment = await db.fetchval("select id from learning.enrollments where cohort_id = $1 limit 1", cohort)
    async with demo.engine.transaction(organization=demo.organization) as tx:
        url = await survey_url(tx, "intake", enrollment)
    assert url is not None
    assert url.startswith(f"{demo.formbricks.url}/s/")
    async with aiohttp.ClientSession() as browser:
        async with browser.get(url) as page:
            assert "learningGoals" in await page.text()
        async with browser.post(url, data={"learningGoals": "ship", "experienceLevel": "Beginner"}) as thanks:
            assert "Thank you" in await thanks.text()
    query = "select count(*) from learning.survey_responses where enrollment_id = $1 and kind = 'intake'"
    await until(lambda: db.fetchval(query, enrollment))


async def test_every_kind_of_simulated_student_ends_well(database_url: str, tmp_path: Path) -> None:
    settings = Settings(database_url=SecretStr(database_url), data_dir=tmp_path, port=0, pool_max=8).using(
        WorkSettings(poll_interval_ms=100)
    )
    demos: list[LearningDemo] = []

    def alone(context: Context) -> LearningDemo:
        demos.append(LearningDemo(context, crowd=False))
        return demos[-1]

    app = Onceward("demo")
    app.include(learning)
    app.part("learning demo", alone)
    process = Process(app, settings, FEATURES)
    await process.start()
    try:
        [demo] = demos
        await demo.set_up()  # as at a second start

        async def booked() -> bool:
            return await process.database.fetchval("select count(*) >= 18 from learning.bookings where uid is not null")

        await until(booked, timeout_s=60)  # six students with three sessions each, at the simulated Cal.com
        for fate, _ in FATES:
            await demo._visit(fate)  # pyright: ignore[reportPrivateUsage]

        async def settled() -> bool:
            row = await process.database.fetchrow(
                "select (select count(*) from learning.enrollments where cohort_id = $1) as bought,"
                " (select count(*) from learning.chat_messages) as said,"
                " (select count(*) from learning.certificates) as certified,"
                " (select count(*) from learning.attendance_observations where source = 'no_show') as missed,"
                " (select count(*) from learning.attendance_observations where attended) as attended,"
                " (select count(*) from learning.survey_responses) as answered",
                demo.cohorts[COURSE],
            )
            assert row is not None
            return (
                row["bought"] >= 2
                and min(row["said"], row["attended"], row["missed"], row["certified"]) >= 1
                and row["answered"] == 2
            )

        await until(settled, timeout_s=60)
        await answer_as_a_visitor(demo)
        assert [result for result in await verify(process.database, CHECKS) if not result.ok] == []
    finally:
        await process.stop()
        learning.use_settings(LearningSettings.model_validate({}))
