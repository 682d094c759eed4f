"""Jobs with process=True: what crashes, hangs or takes too much is a failure of that job alone."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from datetime import date
from pathlib import Path

import pytest

from onceward import Job, Onceward, Tx
from onceward.testing import drain, perform
from onceward.work.claimed import Claimed
from onceward.work.isolation import Isolation
from onceward.work.processes import FailedInProcess, HandlerProcesses, ProcessNotStarted
from tests.work import isolated
from tests.work.isolated import compute, compute_async, good, hang, misbehave, plain, wait

REASONS = {
    "segfault": ("ProcessCrashed", "the process of the handler was killed by SIGSEGV"),
    "_exit": ("ProcessCrashed", "the process of the handler ended itself with the exit code 3"),
    "exit": ("Leaked", "the handler raised SystemExit(3)"),
    "cpu": ("ProcessCrashed", "the process of the handler used more CPU time than cpu_s=1"),
    "value": ("ValueError", "not this one"),
    "database": ("TypeError", "a job with process=True has no database"),
}
WHERE = "onceward.work where id = $1"
SNOOZED = "select outcome = 'snoozed' from onceward.attempts where work_id = $1"


def read(file: Path) -> list[int]:
    return [int(pid) for pid in file.read_text().split()] if file.exists() else []


async def pids(file: Path) -> list[int]:
    async with asyncio.timeout(30):
        while not (found := read(file)):
            await asyncio.sleep(0.02)
    return found


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


async def has_ended(*pids: int) -> bool:
    async with asyncio.timeout(10):
        while any(is_running(pid) for pid in pids):
            await asyncio.sleep(0.02)
    return True


async def test_an_isolated_job_runs_in_one_process_again_and_again_and_keeps_its_result(bench) -> None:
    here = await bench(isolated.app)
    jobs = [await here.engine.enqueue(compute, n=n, day=date(2031, 1, n + 1)) for n in range(5)]
    worker = await here.start_worker(concurrency=1)
    results = [(await here.engine.wait(job.id, timeout=30)).result for job in jobs]
    [pid] = {each.pop("pid") for each in results if each is not None}
    assert pid != os.getpid()
    assert results[3] == {"square": 9, "year": 2031, "key": f"job:{jobs[3].id}:pay", "attempt": 1}
    assert is_running(pid)
    await worker.stop()
    here.workers.clear()
    assert await has_ended(pid)


async def test_crashes_exits_and_limits_are_failures_of_the_job_that_say_what_happened(bench) -> None:
    here = await bench(isolated.app)
    bad = {
        how: await here.engine.enqueue(misbehave.max_attempts(2 if how == "exit" else 1), how=how) for how in REASONS
    }
    refused = await here.engine.enqueue(misbehave, how="too old")
    again = await here.engine.enqueue(misbehave, how="retry")
    await here.start_worker(concurrency=2)
    for how, job in bad.items():
        ended = await here.engine.wait(job.id, timeout=60)
        assert ended.error is not None
        kind, message = REASONS[how]
        assert (ended.outcome, ended.error["reason"], ended.error["type"]) == (
            "dead_letter",
            "max_attempts_exceeded",
            kind,
        ), (how, ended)
        assert message in ended.error["message"]
        attempts = await here.db.fetchval("select count(*) from onceward.attempts where work_id = $1", job.id)
        assert attempts == (2 if how == "exit" else 1)
        if how == "value":
            assert "isolated.py" in str(ended.error["stack"][-1])
    ended = await here.engine.wait(refused.id, timeout=30)
    assert ended.error is not None
    assert (ended.outcome, ended.error["type"], ended.error["reason"]) == ("dead_letter", "TooOld", "permanent")
    assert ended.result == {"code": 7}
    assert (await here.engine.wait(again.id, timeout=30)).outcome == "success"
    assert (await here.engine.wait((await here.engine.enqueue(good, n=1)).id, timeout=10)).result == 1
    snoozed = await here.engine.enqueue(misbehave, how="snooze")
    async with asyncio.timeout(30):
        while not await here.db.fetchval(SNOOZED, snoozed.id):
            await asyncio.sleep(0.02)
    assert await here.db.fetchval(f"select attempts from {WHERE}", snoozed.id) == 0


async def test_a_hanging_process_is_killed_at_its_timeout_with_all_that_it_started(bench, tmp_path: Path) -> None:
    here = await bench(isolated.app)
    job = await here.engine.enqueue(hang, pid_file=str(tmp_path / "pids"))
    await here.start_worker(concurrency=1)
    started = await pids(tmp_path / "pids")
    ended = await here.engine.wait(job.id, timeout=20)
    assert (ended.outcome, (ended.error or {})["reason"]) == ("dead_letter", "timeout")
    assert await has_ended(*started)
    assert not await here.db.fetchval("select count(*) from onceward.workers where overdue <> '{}'")


async def test_a_cancellation_and_a_shutdown_kill_the_process_and_a_shutdown_counts_no_attempt(
    bench, tmp_path: Path
) -> None:
    here = await bench(isolated.app)
    cancelled = await here.engine.enqueue(wait, pid_file=str(tmp_path / "cancelled"))
    stopped = await here.engine.enqueue(wait, pid_file=str(tmp_path / "stopped"))
    worker = await here.start_worker(concurrency=2, grace_s=0.1)
    started = await pids(tmp_path / "cancelled") + await pids(tmp_path / "stopped")
    await here.db.fetchval("select onceward.cancel($1)", cancelled.id)
    assert (await here.engine.wait(cancelled.id, timeout=10)).outcome == "cancelled"
    await worker.stop()
    here.workers.clear()
    assert not worker.is_stuck
    assert await has_ended(*started)
    row = await here.db.fetchrow(f"select attempts, crashes, lease from {WHERE}", stopped.id)
    assert tuple(row) == (0, 0, None)


async def test_a_process_ends_with_its_worker_even_if_the_worker_is_killed(tmp_path: Path) -> None:
    script = f"""
import asyncio
from onceward.work.claimed import Claimed
from onceward.work.processes import HandlerProcesses
from onceward.work.isolation import Isolation

work = Claimed(1, 1, "job", "wait", args={{"pid_file": {str(tmp_path / "pid")!r}}})
asyncio.run(HandlerProcesses().call(Isolation("tests.work.isolated", "wait"), work, None))
"""
    parent = await asyncio.create_subprocess_exec(sys.executable, "-c", script, cwd=Path(__file__).parents[2])
    try:
        [pid] = await pids(tmp_path / "pid")
        os.kill(pid, signal.SIGTERM)  # a service manager sends it to all processes: only the worker heeds it
    finally:
        parent.kill()
        await parent.wait()
    assert await has_ended(pid)


async def test_the_testing_kit_runs_isolated_and_plain_functions(bench) -> None:
    here = await bench(isolated.app)
    assert await perform(here.engine, plain, n=1) == 2
    jobs = [await here.engine.enqueue(compute_async, n=n) for n in (4, 5)]
    await drain(here.engine)
    assert [(await here.engine.wait(job.id, timeout=1)).result for job in jobs] == [16, 25]


def test_what_a_process_cannot_run_is_refused_when_it_is_declared() -> None:
    app = Onceward("t")
    known = set(app.registry.tasks)

    def inner() -> None: ...

    async def with_tx(tx: Tx) -> None: ...

    async def batch(jobs: list[Job], tx: Tx) -> None: ...

    with pytest.raises(TypeError, match=r"inner: process=True needs a function at the top level of a module"):
        app.job(process=True)(inner)
    with pytest.raises(TypeError, match="with_tx: a job with process=True cannot use `tx`"):
        app.job(process=True)(with_tx)
    with pytest.raises(TypeError, match="batch: a job with process=True cannot use `tx` or batch"):
        app.job(process=True, batch=5)(batch)
    with pytest.raises(ValueError, match="inner: memory_mb and cpu_s limit a process of its own: add process=True"):
        app.job(memory_mb=100)(inner)
    with pytest.raises(ValueError, match="is_running: memory_mb must be at least 1, not 0"):
        app.job(process=True, memory_mb=0)(is_running)
    with pytest.raises(ValueError, match="is_running: cpu_s must be more than 0 seconds, not -1"):
        app.job(process=True, cpu_s=-1)(is_running)
    assert set(app.registry.tasks) == known


async def test_the_memory_limit_holds_after_another_failure_in_the_same_process() -> None:
    processes = HandlerProcesses()
    isolation = Isolation(misbehave.function.__module__, "misbehave", memory_mb=100)
    for how, message in (("value", "not this one"), ("memory", "the handler needs more memory than memory_mb=100")):
        with pytest.raises(FailedInProcess) as raised:
            await processes.call(isolation, Claimed(1, 1, "job", "misbehave", args={"how": how}), None)
        assert raised.value.details["message"] == message
    await processes.close()


async def test_a_function_that_a_process_cannot_import_says_so() -> None:
    work = Claimed(1, 1, "job", "dumps", args={})
    with pytest.raises(ProcessNotStarted, match=r"use @app.job\(process=True\) as its outermost decorator"):
        await HandlerProcesses().call(Isolation("json", "dumps"), work, None)
