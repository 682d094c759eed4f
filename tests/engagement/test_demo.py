"""The demonstration: every fate a user can have ends in the state that it should."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

from pydantic import SecretStr

from onceward import Onceward
from onceward.context import Context
from onceward.process.process import Process
from onceward.runtime import FEATURES
from onceward.services import service_settings
from onceward.settings import Settings
from onceward.trust import verify
from onceward.work.settings import WorkSettings
from onceward_apps.engagement import app as engagement
from onceward_apps.engagement import checks
from onceward_apps.engagement.demo import FATES, EngagementDemo
from onceward_apps.engagement.schedules import DAILY, WEEKLY

STATES = """
select s.state, p.reengagement_opt_out, count(*) from engagement.user_engagement_states s
  join engagement.user_profiles p using (organization_id, user_id)
 where s.last_activity_at < now() - interval '14 days' or s.replied_at is not null or exists (
       select from engagement.transitions t where t.user_id = s.user_id and t.trigger = 'activity')
 group by 1, 2 order by 1, 2
"""


async def test_users_of_every_fate_come_and_go(database_url: str, tmp_path: Path, app: Onceward) -> None:
    settings = Settings(database_url=SecretStr(database_url), data_dir=tmp_path, port=0, pool_max=8).using(
        WorkSettings(poll_interval_ms=100), service_settings("whatsapp", interval_ms=50)
    )
    demos: list[EngagementDemo] = []

    def alone(context: Context) -> EngagementDemo:
        demos.append(EngagementDemo(context, crowd=False, holdout_percent=0))
        return demos[-1]

    whole = Onceward("demo")
    whole.include(engagement)
    whole.part("engagement demo", alone)
    runtime = Process(whole, settings, FEATURES)
    await runtime.start()
    try:
        [demo] = demos
        await demo.set_up()  # as at a second start
        # One after the other: a fault of the simulator meets the next message that is sent.
        for fate, _ in FATES:
            number = await demo.visit(fate)
            await demo.run(DAILY)
            await until(
                runtime,
                "select count(*) from onceward.messages where address = $1 and status in ('pending', 'processing')",
                number,
            )
            demo.answer(fate, number)
        await demo.run(WEEKLY)
        deadline = time.monotonic() + 30
        expected = [
            ("active", False, 1),  # came back
            ("dormant", True, 1),  # answered stop
            ("goodbye_sent", False, 2),  # silent, answer lost
            ("help_flow", False, 1),
            ("remind_later", False, 1),
        ]
        while True:
            await demo.run(DAILY)
            seen = [tuple(row) for row in await runtime.database.fetch(STATES)]
            others = [row for row in seen if row not in expected]
            if time.monotonic() > deadline or set(expected[1:]) <= set(seen):
                break
            await asyncio.sleep(0.2)
        assert set(expected[1:]) <= set(seen), seen
        assert [row[0] for row in others] == ["active"], others  # came back, and two whose goodbye was given up
        assert await runtime.database.fetchval("select count(*) from onceward.run_items where outcome = 'failed'") >= 2
        assert [result for result in await verify(runtime.database, checks.CHECKS) if not result.ok] == []
    finally:
        await runtime.stop()


async def until(runtime: Process, query: str, number: str) -> None:
    async with asyncio.timeout(30):
        while not await runtime.database.fetchval("select count(*) from onceward.messages where address = $1", number):
            await asyncio.sleep(0.05)
        while await runtime.database.fetchval(query, number):
            await asyncio.sleep(0.05)
