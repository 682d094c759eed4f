"""Raise an exception in every loop of every role. The loops are those that the running process has."""

from __future__ import annotations

import asyncio
from typing import Any

import aiohttp
import asyncpg
import pytest
from pydantic import SecretStr
from structlog.testing import capture_logs

from onceward import Onceward
from onceward.background import Loop
from onceward.background import loop as loop_module
from onceward.background.stack import waiting_at
from onceward.background.supervisor import LOOK_EVERY_S
from onceward.doctor.processes import check_loops
from onceward.feature import Role
from onceward.process.metrics import LOOP_FAILURES, LOOPS_HUNG
from onceward.process.process import Process
from onceward.runtime import FEATURES
from onceward.settings import Settings
from onceward.testing import until
from onceward.web.settings import WebSettings
from onceward.work.settings import WorkSettings

ROLES: list[Role] = ["web", "worker", "scheduler"]
HANGS: dict[Role, str] = {"web": "sources", "worker": "rescue", "scheduler": "schedules"}


class Planted(Exception):
    pass


app = Onceward("t")


@app.job
async def double(*, n: int) -> int:
    return 2 * n


def make_process(database_url: str) -> Process:
    settings = Settings(database_url=SecretStr(database_url), port=0).using(
        WebSettings(health_port=0), WorkSettings(worker_concurrency=2)
    )
    return Process(app, settings, FEATURES)


async def plant(loop: Loop) -> None:
    """Let the loop fail now: where it waits, if it waits inside its step, else in its next step."""

    def waits_for() -> Any:
        return getattr(loop.task, "_fut_waiter")  # noqa: B009 - not public

    while loop._every_s is None and waits_for() is not None and waits_for().done():
        await asyncio.sleep(0)  # what it waited for has come, and it goes on in this turn of the event loop
    real = loop.step

    async def step() -> None:
        loop.step = real
        raise Planted(loop.name)

    if loop._every_s is None and waits_for() is not None:
        waits_for().set_exception(Planted(loop.name))
    else:
        loop.step = step
        loop.nudge()


def failures(loop: Loop) -> float:
    return LOOP_FAILURES.labels(loop.name)._value.get()


async def ready(process: Process) -> tuple[int, Any]:
    from onceward.web.server import HealthServer, WebServer

    assert process.context is not None
    server = process.context.part(WebServer if "web" in process.context.roles else HealthServer)
    async with aiohttp.ClientSession() as session, session.get(f"{server.url}/readyz") as response:
        return response.status, await response.json()


@pytest.mark.parametrize("role", ROLES)
async def test_the_process_recovers_from_an_exception_in_any_loop_and_reports_a_step_that_hangs(
    database_url: str, role: Role
) -> None:
    process, before = make_process(database_url), asyncio.all_tasks()
    await process.start([role])
    try:
        loops = process.supervisor.loops
        await until(lambda: all(each.steps or each._every_s is None for each in loops if not each._waits_first))
        own = {each.task for each in loops}
        assert {each.get_name() for each in asyncio.all_tasks() - before if each not in own} == set()
        counted = {each.name: failures(each) for each in loops}
        failed_before = {each: each.failures for each in loops}
        with capture_logs() as logs:
            for each in loops:
                await plant(each)
                await asyncio.sleep(0)
            await until(lambda: all(each.failures > failed_before[each] for each in loops))
            steps = {each: each.steps for each in loops}
            await until(lambda: all(_goes_on(each, steps[each]) for each in loops), timeout_s=30)
        names = [each.name for each in loops]
        said = [each["loop"] for each in logs if each["event"] == "loop.failed" and each["error"] == "Planted"]
        assert sorted(said) == sorted(names)
        assert all(failures(each) >= counted[each.name] + names.count(each.name) for each in loops)
        status, body = await ready(process)
        assert (status, body["checks"]["loops"]) == (200, "ok")
        if role == "worker":
            assert process.engine is not None
            job = await process.engine.enqueue(double, n=21)
            await until(
                lambda: process.database.fetchval(
                    "select count(*) = 1 from onceward.attempts where work_id = $1", job.id
                )
            )
        assert {each.name for each in loops if each.longest_step_s is None} == {"web"}  # it answers the probe itself
        await assert_a_hung_step_is_reported(process, next(each for each in loops if each.name == HANGS[role]))
    finally:
        await process.stop()


async def assert_a_hung_step_is_reported(process: Process, loop: Loop) -> None:
    """The log has the line at which the step waits, the process is not ready, and doctor names the loop."""
    real, go_on, counted = loop.step, asyncio.Event(), LOOPS_HUNG.labels(loop.name)._value.get()

    async def hang() -> None:
        await go_on.wait()

    loop.step, loop.longest_step_s = hang, LOOK_EVERY_S  # the looks of the test follow at once, which others survive
    with capture_logs() as logs:
        while loop.task is not None and not waiting_at(loop.task)[-2:][0].endswith(" hang"):
            loop.nudge()
            await asyncio.sleep(0.01)
        for _ in range(2):
            process.supervisor.look()
        [line] = [each for each in logs if each["event"] == "loop.hung"]
        assert line["loop"] == loop.name
        assert f"{__file__}:{hang.__code__.co_firstlineno + 1} hang" in line["stack"]
        status, body = await ready(process)
        assert (status, body["checks"]["loops"]) == (503, f"these loops keep failing or hang: {loop.name}")
        await next(each for each in process.supervisor.loops if each.name == "process note").step()
        conn = await asyncpg.connect(process.database.url)
        finding = await check_loops(conn)
        await conn.close()
        assert (finding.status, f"{loop.name} of" in finding.finding) == ("fail", True)
        assert LOOPS_HUNG.labels(loop.name)._value.get() == counted + 1
        loop.step = real
        go_on.set()
        await until(lambda: loop.busy_with() is None)
        process.supervisor.look()
    assert "loop.resumed" in [each["event"] for each in logs]
    assert (await ready(process))[0] == 200


def _goes_on(loop: Loop, steps: int) -> bool:
    return loop.task is not None and not loop.task.done() and (loop.steps > steps or loop._step_began is not None)


async def test_a_process_with_a_loop_that_keeps_failing_is_not_ready(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop_module, "TOLERATED_S", 0.1)
    process = make_process(database_url)
    await process.start(["scheduler"])
    try:
        loop = next(each for each in process.supervisor.loops if each.name == "schedules")
        real, loop._every_s = loop.step, 0.01

        async def step() -> None:
            raise Planted("again and again")

        loop.step = step
        loop.nudge()
        await until(lambda: loop.keeps_failing)
        status, body = await ready(process)
        assert (status, body["checks"]["loops"]) == (503, "these loops keep failing or hang: schedules")
        note = next(each for each in process.supervisor.loops if each.name == "process note")
        await note.step()
        assert await process.database.fetchval("select failing from onceward.processes") == {"schedules": "Planted"}
        loop.step = real
        await until(lambda: not loop.keeps_failing)
        assert (await ready(process))[0] == 200
    finally:
        await process.stop()
