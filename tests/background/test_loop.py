"""A loop goes on after any failure of its step, and its supervisor knows which loops keep failing."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable

import pytest
from structlog.testing import capture_logs

from onceward.background import Loop, Supervisor, Tasks, supervised_by
from onceward.background import loop as loop_module
from onceward.db import Unavailable
from onceward.testing import until


async def raises_runtime_error() -> None:
    raise RuntimeError("planted")


async def raises_system_exit() -> None:
    raise SystemExit(3)


async def awaits_a_cancelled_task() -> None:
    other = asyncio.ensure_future(asyncio.sleep(60))
    other.cancel()
    await other


@pytest.mark.parametrize("every_s", [None, 0.01])
@pytest.mark.parametrize("fail", [raises_runtime_error, raises_system_exit, awaits_a_cancelled_task])
async def test_a_failed_step_is_logged_once_and_counted_and_the_loop_goes_on(
    fail: Callable[[], Awaitable[None]], every_s: float | None
) -> None:
    counted: Counter[str] = Counter()
    turns = 0

    async def step() -> None:
        nonlocal turns
        turns += 1
        if turns <= 2:
            await fail()
        await asyncio.sleep(0.01)

    with capture_logs() as logs, supervised_by(Supervisor(count=lambda name: counted.update([name]))):
        loop = Loop("planted", step, every_s=every_s, longest_pause_s=0.05)
        await loop.start()
        await until(lambda: loop.steps >= 2)
        await loop.stop()
    assert [each["log_level"] for each in logs if each["event"] == "loop.failed"] == ["error", "debug"]
    assert [each["loop"] for each in logs if each["event"] == "loop.recovered"] == ["planted"]
    assert counted == {"planted": 2}


async def test_a_loop_that_keeps_failing_is_reported_until_a_step_succeeds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop_module, "TOLERATED_S", 0.2)
    supervisor, broken = Supervisor(), True

    async def step() -> None:
        if broken:
            raise ValueError("planted")

    with supervised_by(supervisor):
        loop = Loop("planted", step, every_s=0.01, longest_pause_s=0.05)
        await loop.start()
        await until(lambda: loop.failures >= 2)
        assert supervisor.failing() == {}, "a short trouble is not reported"
        await until(lambda: supervisor.failing() == {"planted": "ValueError"})
        broken = False
        await until(lambda: supervisor.failing() == {})
        await loop.stop()
    assert supervisor.loops == ()


async def test_an_outage_of_the_database_is_not_a_fault_of_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop_module, "TOLERATED_S", 0.0)
    supervisor = Supervisor()

    async def step() -> None:
        raise Unavailable("no server")

    with supervised_by(supervisor):
        loop = Loop("planted", step, every_s=0.01, longest_pause_s=0.02)
        await loop.start()
        await until(lambda: loop.failures >= 3)
        assert supervisor.failing() == {}
        await loop.stop()


async def test_a_loop_whose_task_is_cancelled_ends() -> None:
    """Else `asyncio.run` would wait forever for the loops of a program that forgot to stop them."""
    loop = Loop("planted", lambda: asyncio.sleep(60))
    await loop.start()
    await asyncio.sleep(0)
    assert loop.task is not None
    loop.task.cancel()
    await asyncio.wait({loop.task}, timeout=5)
    assert loop.task.cancelled()
    await loop.stop()


async def test_a_failed_background_task_is_logged_and_counted() -> None:
    counted: Counter[str] = Counter()
    with capture_logs() as logs, supervised_by(Supervisor(count=lambda name: counted.update([name]))):
        tasks = Tasks("note")
        tasks.start(raises_runtime_error())
        assert await tasks.wait(timeout_s=5)
        await asyncio.sleep(0)
    assert [(each["event"], each["task"]) for each in logs] == [("task.failed", "note")]
    assert counted == {"note": 1}
