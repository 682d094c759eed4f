"""Which exceptions are failures of the work that raised them, and which are meant for the caller (see test_misbehaving.py)."""

from __future__ import annotations

import asyncio
import contextlib
import signal

import pytest

from onceward import Onceward
from onceward.background import current_supervisor
from onceward.work.leaks import failure_of


async def test_a_ctrl_c_that_python_raises_in_a_handler_still_stops_the_process(monkeypatch) -> None:
    assert failure_of(KeyboardInterrupt()).args  # the runner of this test has replaced the handler of SIGINT
    monkeypatch.setattr(signal, "getsignal", lambda _number: signal.default_int_handler)
    with pytest.raises(KeyboardInterrupt):
        failure_of(KeyboardInterrupt())


async def test_a_cancellation_of_the_caller_is_not_a_failure_of_the_work() -> None:
    async def call() -> None:
        try:
            await asyncio.sleep(60)
        except BaseException as error:
            failure_of(error)

    task = asyncio.create_task(call())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_an_event_loop_that_ends_while_jobs_run_does_not_wait_for_their_slots(bench) -> None:
    app = Onceward("t")
    started = asyncio.Queue[str]()

    @app.job
    async def obeys() -> None:
        started.put_nowait("obeys")
        await asyncio.Event().wait()

    @app.job
    async def swallows() -> None:
        started.put_nowait("swallows")
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.Event().wait()

    here = await bench(app)
    await here.engine.enqueue(obeys)
    await here.engine.enqueue(swallows)
    await here.start_worker()
    async with asyncio.timeout(10):
        assert {await started.get(), await started.get()} == {"obeys", "swallows"}
    # What `asyncio.run` does when its coroutine has returned: it cancels each task once, and waits for all.
    tasks = {loop.task for loop in current_supervisor().loops if loop.task is not None and not loop.task.done()}
    for task in tasks:
        task.cancel()
    _, running = await asyncio.wait(tasks, timeout=3)
    assert running == set()
    await here.stop_workers()
    here.workers.clear()
    assert await here.db.fetchval("select count(*) from onceward.work where lease is not null") == 0
    assert await here.db.fetchval("select count(*) from onceward.attempts where outcome <> 'success'") == 0
