"""Every end of a work item is written by one function, `onceward.record_attempts`."""

from __future__ import annotations

import re
from datetime import timedelta
from pathlib import Path

import asyncpg
import pytest

import onceward
from onceward import Engine, Onceward
from onceward.db import Database
from onceward.testing import drain
from onceward.work import controls, dead_letters
from onceward.work.dead_letters import DeadLetterFilter
from onceward.work.unserved import UnservedWalk

app = Onceward("endings")
ROOT = Path(onceward.__file__).parent
INSERT = re.compile(r"insert\s+into\s+onceward\.attempts\b", re.IGNORECASE)

LAST = """
select outcome, error->>'reason' as reason from onceward.attempts where work_id = $1 order by finished_at desc limit 1
"""


@app.job(retry=[])
async def broken() -> None:
    raise RuntimeError("never works")


@pytest.fixture
async def engine(db: Database) -> Engine:
    return Engine(db, app.registry)


def test_one_statement_in_the_whole_engine_inserts_attempts() -> None:
    files = [path for kind in ("*.sql", "*.py") for path in ROOT.rglob(kind)]
    found = [(path, len(INSERT.findall(path.read_text(encoding="utf-8")))) for path in files]
    writers = [(path.parent.parent.name, count) for path, count in found if count]
    assert writers == [("work", 1)], "call onceward.record_attempts instead"


async def test_discarding_a_dead_letter_is_its_last_attempt(engine: Engine) -> None:
    job = await engine.enqueue(broken)
    await drain(engine)
    assert await engine.db.fetch(LAST, job.id) == [("dead_letter", "max_attempts_exceeded")]
    await dead_letters.discard(engine.db, DeadLetterFilter(ids=[job.id]), actor="anna", reason="done")
    assert await engine.db.fetch(LAST, job.id) == [("discarded", "max_attempts_exceeded")]


async def test_cancelling_waiting_work_is_its_last_attempt(engine: Engine) -> None:
    job = await engine.enqueue(broken)
    await controls.cancel(engine.db, job.id, actor="anna")
    assert await engine.db.fetch(LAST, job.id) == [("cancelled", None)]


async def test_a_job_that_no_worker_knows_ends_with_an_attempt(engine: Engine) -> None:
    id = await engine.db.fetchval("select onceward.enqueue('no_such_job')")
    await engine.db.execute("update onceward.work set sort_at = now() - '1 minute'::interval")
    async with engine.db.acquire() as conn:
        await UnservedWalk().step(conn)
        assert await conn.fetch(LAST, id) == [], "it only waits"
        await conn.execute("update onceward.work set sort_at = now() - '1 minute'::interval")
        [found] = await UnservedWalk(patience=timedelta(0)).step(conn)
        assert (found.task, found.dead) == ("no_such_job", 1)
        assert await conn.fetch(LAST, id) == [("dead_letter", "no_handler")]


async def test_an_outcome_that_does_not_exist_is_refused(db: Database) -> None:
    record = (
        "select onceward.record_attempts(array[row(1, null, 1, 'job', 'broken', $1::text, 1, null, now(), null, null, 0)"
        "::onceward.attempt])"
    )
    assert await db.fetchval(record, "success") == 1
    with pytest.raises(asyncpg.CheckViolationError):
        await db.fetchval(record, "perhaps")
