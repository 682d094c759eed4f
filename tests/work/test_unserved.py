"""Due work that nobody runs is noted with its reason, waits from the loss of its handler on, and then is a dead letter."""

from __future__ import annotations

from datetime import timedelta

import pytest
from structlog.testing import capture_logs

from onceward.db import Database
from onceward.work import controls
from onceward.work.unserved import Unserved, UnservedWalk

WORKER = """
insert into onceward.workers (id, name, version, queues, tasks, apps) values ($1, 'h:1', '1', $2, $3, '{}')
"""
UNSERVED = "select queue, task, reason from onceward.unserved order by 1, 2, 3"


async def enqueue(db: Database, task: str, *, queue: str = "default", lane: str | None = None) -> int:
    """A job that has been due for a minute."""
    return await db.fetchval(
        "select onceward.enqueue($1, queue => $2, lane => $3, run_at => now() - interval '1 minute')", task, queue, lane
    )


async def make_due(db: Database) -> None:
    await db.execute("update onceward.work set sort_at = now() - interval '1 minute'")


@pytest.fixture
async def worker(db: Database) -> None:
    await db.execute(WORKER, 1, ["default", "mail"], ["known"])


@pytest.mark.usefixtures("worker")
async def test_each_reason_is_noted_and_known_work_is_left_alone(db: Database) -> None:
    await enqueue(db, "known")
    await enqueue(db, "known", queue="slow")
    await enqueue(db, "gone")
    await enqueue(db, "gone", queue="mail", lane="k")
    with capture_logs() as lines:
        async with db.acquire() as conn:
            found = await UnservedWalk().step(conn)
            await make_due(db)
            await UnservedWalk().step(conn)
    assert found == [
        Unserved("default", "gone", "no_handler", 0),
        Unserved("mail", "gone", "no_handler", 0),
        Unserved("slow", "known", "no_queue", 0),
    ]
    assert len([line for line in lines if line["event"] == "work.unserved"]) == 3, "each is logged once"
    assert [tuple(row) for row in await db.fetch(UNSERVED)] == [(u.queue, u.task, u.reason) for u in found]
    rows = await db.fetch("select queue, lane from onceward.work where sort_at > now()")
    assert [tuple(row) for row in rows] == [("default", None)], "only what claims would pass over is postponed"


@pytest.mark.usefixtures("worker")
async def test_the_patience_counts_from_the_loss_of_the_handler_and_ends_with_its_return(db: Database) -> None:
    id = await enqueue(db, "gone")
    await db.execute("update onceward.jobs set created_at = now() - interval '3 days'")
    async with db.acquire() as conn:
        walk = UnservedWalk()
        assert [each.dead for each in await walk.step(conn)] == [0], "an old job whose worker has just stopped"
        await conn.execute("update onceward.unserved set since = now() - interval '23 hours'")
        await make_due(db)
        assert [each.dead for each in await walk.step(conn)] == [0]
        await conn.execute("update onceward.workers set tasks = '{known,gone}'")
        await make_due(db)
        assert await walk.step(conn) == []
        assert await conn.fetch(UNSERVED) == []
        await conn.execute("update onceward.workers set tasks = '{known}'")
        await walk.step(conn)
        assert await conn.fetchval("select since > now() - interval '1 minute' from onceward.unserved")
        await conn.execute("update onceward.unserved set since = now() - interval '25 hours'")
        await make_due(db)
        assert [each.dead for each in await walk.step(conn)] == [1]
        error = await conn.fetchval("select error from onceward.attempts where work_id = $1", id)
    assert (error["reason"], error["message"]) == ("no_handler", "no running worker knows the task gone")


@pytest.mark.usefixtures("worker")
async def test_an_outage_of_all_workers_does_not_count(db: Database) -> None:
    await enqueue(db, "gone")
    async with db.acquire() as conn:
        await UnservedWalk().step(conn)
        await conn.execute(
            "update onceward.unserved set since = now() - interval '30 hours', seen_at = now() - interval '29 hours'"
        )
        await make_due(db)
        assert [each.dead for each in await UnservedWalk().step(conn)] == [0], "nobody was there to know the task"
        assert await conn.fetchval("select since > now() - interval '1 minute' from onceward.unserved")


@pytest.mark.usefixtures("worker")
async def test_what_is_paused_is_not_unserved(db: Database) -> None:
    await enqueue(db, "gone", queue="mail")
    await controls.pause(db, "mail", actor="anna")
    async with db.acquire() as conn:
        assert await UnservedWalk(patience=timedelta(0)).step(conn) == []


@pytest.mark.usefixtures("worker")
async def test_a_row_goes_when_its_work_is_gone(db: Database) -> None:
    await enqueue(db, "gone")
    async with db.acquire() as conn:
        walk = UnservedWalk()
        await walk.step(conn)
        await conn.execute("delete from onceward.work")
        await walk.step(conn)
        assert len(await conn.fetch(UNSERVED)) == 1, "postponed work is not found for half a minute"
        await conn.execute("update onceward.unserved set seen_at = now() - interval '3 minutes'")
        await walk.step(conn)
        assert await conn.fetch(UNSERVED) == []
