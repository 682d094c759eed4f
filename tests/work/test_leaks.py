"""Exceptions that are meant for a task or a process are failures of the one job that raised them."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys

import pytest

from onceward import Job, Onceward, Tx
from onceward.background import current_supervisor
from onceward.work.leaks import failure_of

LEAKS = ("cancelled", "generator", "exit", "interrupt", "own task", "own task and success", "subtask", "closed")


async def misbehave(how: str) -> None:
    """Do what a handler must not do."""
    match how:
        case "cancelled":
            other = asyncio.create_task(asyncio.sleep(60))
            await asyncio.sleep(0)
            other.cancel()
            await other
        case "generator":
            raise GeneratorExit
        case "exit":
            sys.exit(3)
        case "interrupt":
            raise KeyboardInterrupt
        case "own task":
            cancel_own_task()
            await asyncio.sleep(0)
        case "own task and success":
            cancel_own_task()
        case "closed":  # Python closes a coroutine that awaits such a task, instead of raising there
            await asyncio.create_task(misbehave("generator"))
        case _:
            async with asyncio.TaskGroup() as group:
                group.create_task(misbehave("generator"))


def cancel_own_task() -> None:
    task = asyncio.current_task()
    assert task is not None
    task.cancel()


def misbehaving_app() -> Onceward:
    app = Onceward("t")

    @app.job(retry=[0.0])
    async def without_tx(*, how: str) -> None:
        await misbehave(how)

    @app.job(retry=[0.0])
    async def with_tx(tx: Tx, *, how: str) -> None:
        await tx.execute("select 1")
        await misbehave(how)

    @app.job(retry=[0.0])
    def sync(*, how: str) -> None:
        if how == "exit":
            sys.exit(3)
        raise {"cancelled": asyncio.CancelledError, "generator": GeneratorExit, "stop": StopIteration}.get(
            how, KeyboardInterrupt
        )

    @app.job(batch=5, retry=[0.0])
    async def in_batch(jobs: list[Job], tx: Tx) -> None:
        await tx.execute("select 1")
        for job in jobs:
            if job.args["how"] != "well":
                await misbehave(job.args["how"])

    @app.job
    async def good(*, n: int) -> int:
        async with asyncio.TaskGroup() as group:
            group.create_task(asyncio.sleep(0))
        return n

    @app.job
    async def good_with_tx(tx: Tx, *, n: int) -> int:
        return await tx.fetchval("select $1::int", n)

    return app


async def test_a_leaked_exception_fails_its_job_and_good_jobs_run_on_in_the_same_slots(bench) -> None:
    app = misbehaving_app()
    here = await bench(app)
    jobs = {name: app.registry.tasks[name] for name in ("without_tx", "with_tx", "sync", "in_batch")}
    bad: list[tuple[int, str, str]] = []
    good: list[int] = []
    n = 0
    for name in jobs:
        for how in (*LEAKS, "stop") if name == "sync" else LEAKS:
            for each in (how, "well") if name == "in_batch" else (how,):
                id = await here.db.fetchval(
                    "select onceward.enqueue($1, jsonb_build_object('how', $2::text))", name, each
                )
                if each == "well":
                    good.append(id)
                else:
                    bad.append((id, name, each))
            for follower in ("good", "good_with_tx"):
                n += 1
                good.append(
                    await here.db.fetchval("select onceward.enqueue($1, jsonb_build_object('n', $2::int))", follower, n)
                )
    await here.start_worker(concurrency=2)
    for id in good:
        assert (await here.engine.wait(id, timeout=20)).outcome == "success"
    for id, name, how in bad:
        ended = await here.engine.wait(id, timeout=20)
        # Whether a job that cancels its own task and returns has succeeded depends on what was awaited since.
        allowed = {"dead_letter"} | ({"success"} if how == "own task and success" else set[str]())
        assert ended.outcome in allowed, (name, how, ended)
        if ended.outcome == "dead_letter":
            assert ended.error is not None
            attempts = await here.db.fetchval("select count(*) from onceward.attempts where work_id = $1", id)
            assert (ended.error["reason"], attempts) == ("max_attempts_exceeded", 2), (name, how, ended)
            if how not in ("subtask", "stop"):
                assert ended.error["type"] == "Leaked", (name, how, ended)


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
