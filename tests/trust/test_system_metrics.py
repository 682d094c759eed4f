"""Each of the six events of system_metrics is written by what it names."""

from __future__ import annotations

import asyncio
from typing import Any
from uuid import uuid4

import asyncpg
import pytest

from onceward import Engine, LimitReached, Onceward, Tx
from onceward.db import Database
from onceward.limits import Refusal
from onceward.telemetry.caller import calling
from onceward.testing import drain, until
from onceward.work import Worker

app = Onceward("shop")


@app.job(name="waits", max_attempts=1)
async def waits(*, n: int) -> None:
    await asyncio.Event().wait()


@app.job(name="too_long", max_attempts=1, timeout=0.05)
async def too_long(*, n: int) -> None:
    await asyncio.Event().wait()


@app.job(name="quick")
async def quick(tx: Tx, *, n: int) -> None:
    return None


async def events(db: Database, name: str) -> list[Any]:
    return await db.fetch(
        "select severity, job_id, user_id, subject, metadata from onceward.system_metrics where event_type = $1 order by job_id",
        name,
    )


@pytest.mark.parametrize("options", [{}, {"forever": True}])
async def test_duplicate_job_detected_is_an_enqueue_that_meets_a_unique_key(db: Database, options: Any) -> None:
    engine = Engine(db, app.registry)
    organization = uuid4()
    async with engine.transaction(organization=organization) as tx:
        first = await tx.enqueue(quick.unique("k", **options), n=1)
    assert await events(db, "duplicate_job_detected") == []
    with calling(request="req-7"):
        async with engine.transaction(organization=organization) as tx:
            assert (await tx.enqueue(quick.unique("k", **options), n=2)).duplicate
    [event] = await events(db, "duplicate_job_detected")
    assert (event["severity"], event["job_id"]) == ("info", str(first.id))
    assert event["metadata"] == {
        "task": "quick",
        "unique_key": "k",
        "organization_id": str(organization),
        "request": "req-7",
    }
    async with engine.transaction(organization=uuid4()) as tx:
        assert not (await tx.enqueue(quick.unique("k", **options), n=2)).duplicate
    assert len(await events(db, "duplicate_job_detected")) == 1


async def test_concurrency_limit_hit_is_a_refused_reservation(db: Database) -> None:
    engine = Engine(db, app.registry)
    user = uuid4()
    async with engine.transaction() as tx:
        await tx.reserve(await tx.enqueue(quick, n=1), key="user:1", at_most=1)
    with pytest.raises(LimitReached), calling(request="req-7", user=str(user)):
        async with engine.transaction() as tx:
            refusal = Refusal(subject="order-7", metadata={"rejected_order": "order-7"})
            await tx.reserve(await tx.enqueue(quick, n=2), key="user:1", at_most=1, refusal=refusal)
    await engine.stop()
    [event] = await events(db, "concurrency_limit_hit")
    assert (event["severity"], event["user_id"], event["subject"]) == ("warn", user, "order-7")
    global_limit = await db.fetchval("select at_most from onceward.limits where name = 'global'")
    assert event["metadata"] == {
        "key": "user:1",
        "limit": 1,
        "key_limit": 1,
        "current_jobs": 1,
        "global_limit": global_limit,
        "requested_by": "user:1",
        "request": "req-7",
        "user": str(user),
        "rejected_order": "order-7",
    }


async def test_worker_timeout_is_a_job_that_ran_longer_than_its_timeout(db: Database) -> None:
    engine = Engine(db, app.registry)
    worker = Worker(db, app.registry, engine.waker, open_tx=engine.open_tx)
    await worker.start()
    try:
        job = await engine.enqueue(too_long, n=1)

        async def recorded() -> Any:
            return await events(db, "worker_timeout")

        [event] = await until(recorded)
    finally:
        await worker.stop()
    assert (event["severity"], event["job_id"]) == ("error", str(job.id))
    assert event["metadata"]["task"] == "too_long"


async def test_orphaned_job_recovery_is_one_event_for_each_job_of_a_lost_worker(db: Database) -> None:
    engine = Engine(db, app.registry)
    jobs = [await engine.enqueue(waits, n=n) for n in range(3)]
    lease, lost = 7, 4711
    await db.execute(
        "insert into onceward.workers (id, name, version, queues, tasks) values ($1, 'lost', '1', '{default}', '{waits}')",
        lost,
    )
    await db.execute("update onceward.work set lease = $1, claimed_at = now()", lease)
    await db.execute(
        "insert into onceward.claims (lease, worker, ids) values ($1, $2, $3)", lease, lost, [job.id for job in jobs]
    )
    rescuer = Worker(db, app.registry, engine.waker, open_tx=engine.open_tx)
    rescuer._rescuer._apart_s = rescuer._rescuer._settle_s = 0
    for _ in range(5):
        await rescuer.rescue()
    found = await events(db, "orphaned_job_recovery")
    assert [event["job_id"] for event in found] == sorted(str(job.id) for job in jobs)
    assert found[0]["metadata"] == {"worker": str(lost), "kind": "job", "task": "waits", "crashes": 1}
    assert found[0]["severity"] == "warn"


async def test_rpc_retry_exhausted_and_job_rollback_are_a_transaction_that_was_given_up(db: Database) -> None:
    engine = Engine(db, app.registry)
    tries = 0

    async def deadlocked(tx: Tx) -> None:
        nonlocal tries
        tries += 1
        await tx.enqueue(quick, n=1)
        await tx.execute("do $$ begin raise exception 'deadlock' using errcode = '40P01'; end $$")

    with pytest.raises(asyncpg.DeadlockDetectedError):
        await engine.transact(deadlocked, first_pause=0.001, subject="order-7")
    assert tries == 3
    assert await db.fetchval("select count(*) from onceward.jobs") == 0
    for name in ("rpc_retry_exhausted", "job_rollback"):
        [event] = await events(db, name)
        assert (event["severity"], event["subject"]) == ("error", "order-7")
        assert event["metadata"]["attempts"] == 3
        assert event["metadata"]["last_error"] == "DeadlockDetectedError"
        assert event["metadata"]["rollback_timestamp"]

    async def second_time(tx: Tx) -> int:
        nonlocal tries
        tries += 1
        if tries == 4:
            await tx.execute("do $$ begin raise exception 'deadlock' using errcode = '40P01'; end $$")
        return (await tx.enqueue(quick, n=1)).id

    assert await engine.transact(second_time, first_pause=0.001) > 0
    await drain(engine)
    assert len(await events(db, "job_rollback")) == 1
    with pytest.raises(asyncpg.UndefinedTableError):
        await engine.transact(lambda tx: tx.execute("select 1 from nowhere"))
    assert len(await events(db, "job_rollback")) == 1
