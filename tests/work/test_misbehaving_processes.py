"""Handlers that stop a whole process: it ends, others rescue its work, and only the culprit is charged."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
from collections.abc import Callable, Iterator

import pytest

from onceward import Engine
from onceward.db import Database
from tests.child import ROOT, command, end
from tests.queries import until_query
from tests.work.misbehaving import app, block, exit_in_task, hang, innocent, swallow

HELD = "select count(*) from onceward.work where lease is not null"


@pytest.fixture
def start(database_url: str, tmp_path) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    started: list[subprocess.Popen[str]] = []

    def begin(**settings: str) -> subprocess.Popen[str]:
        environment = {
            **os.environ,
            "ONCEWARD_DATABASE_URL": database_url,
            "ONCEWARD_DATA_DIR": str(tmp_path),
            "ONCEWARD_SHUTDOWN_GRACE_S": "0.5",
            "ONCEWARD_LOG_FORMAT": "json",
            **settings,
        }
        started.append(
            subprocess.Popen(
                command("onceward", "worker", "tests.work.misbehaving:app"),
                cwd=ROOT,
                env=environment,
                text=True,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
            )
        )
        return started[-1]

    yield begin
    for process in started:
        end(process)


@pytest.fixture
async def engine(db: Database):
    engine = Engine(db, app.registry)
    await engine.start()
    yield engine
    await engine.stop()


async def ended(process: subprocess.Popen[str], *, within_s: float = 30.0) -> str:
    output, _ = await asyncio.to_thread(process.communicate, None, within_s)
    return output


async def rescue(db: Database) -> dict[int, int]:
    """Rescue the work of the dead worker. Return the crashes of each."""
    [worker] = await db.fetch("select id, beat from onceward.workers")
    rows = await db.fetch("select * from onceward.rescue($1, $2)", worker["id"], worker["beat"])
    return {row["id"]: row["crashes"] for row in rows}


async def test_a_blocked_event_loop_is_reported_and_ends_the_process_and_only_the_culprit_is_charged(
    engine: Engine, db: Database, start
) -> None:
    process = start(ONCEWARD_BLOCKED_WARN_S="0.4", ONCEWARD_BLOCKED_LIMIT_S="1.2")
    good = [await engine.enqueue(innocent) for _ in range(3)]
    await until_query(db, HELD, 3)
    bad = await engine.enqueue(block)
    output = await ended(process)
    assert process.returncode == 70, output
    assert "event_loop.blocked" in output
    assert "tests/work/misbehaving.py" in output
    assert f'"id":{bad.id}' in output.replace(" ", "")
    crashes = await rescue(db)
    assert crashes == {bad.id: 1} | {job.id: 0 for job in good}
    message = await db.fetchval("select error->>'message' from onceward.attempts where work_id = $1", bad.id)
    assert message == "the handler blocked its worker, which ended itself"


async def test_a_handler_whose_task_exits_ends_the_process_and_counts_a_crash(
    engine: Engine, db: Database, start
) -> None:
    process = start()
    bad = await engine.enqueue(exit_in_task)
    output = await ended(process)
    assert process.returncode == 70, output
    assert "process.ended_by_handler" in output
    assert await rescue(db) == {bad.id: 1}


@pytest.mark.parametrize("jobs", [(hang,), pytest.param((hang, swallow), marks=pytest.mark.slow)])
async def test_a_process_with_handlers_that_cannot_be_stopped_ends_at_a_signal(
    engine: Engine, db: Database, start, jobs
) -> None:
    process = start()
    stuck = [await engine.enqueue(job) for job in jobs]
    await until_query(db, "select coalesce(sum(cardinality(overdue)), 0)::int from onceward.workers", 1)
    process.send_signal(signal.SIGTERM)
    output = await ended(process)
    assert process.returncode == 0, output
    assert output.count("handler.not_stopped") == len(jobs)
    assert await rescue(db) == {job.id: 1 for job in stuck}
