"""A connection lost inside a handler is not an attempt that failed, and does not make the handler run for ever."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from onceward import Job, Onceward, Permanent, Tx, Workflow
from onceward.db import FAILED, Connection
from onceward.db.unreadable import Unreadable
from onceward.trust.errors import UnknownSecretKey
from onceward.work import slots
from onceward.work.rescue import Rescuer

CUT_ITSELF = "select pg_terminate_backend(pg_backend_pid())"
HISTORY = "select outcome, error ->> 'reason' as reason from onceward.attempts where work_id = $1 order by finished_at"


async def cut_off(here, tx: Tx) -> None:
    """End the session of this transaction, as a statement that crashes its backend would."""
    await here.db.execute("select pg_terminate_backend($1)", await tx.fetchval("select pg_backend_pid()"))
    await tx.execute("select pg_sleep(10)")


async def history(here, id: int) -> list[tuple[str, str | None]]:
    return [tuple(row) for row in await here.db.fetch(HISTORY, id)]


@pytest.mark.parametrize("with_tx", [True, False])
async def test_a_job_of_one_attempt_survives_the_loss_of_its_connection(bench, with_tx: bool) -> None:
    app = Onceward("t")
    runs: list[int] = []

    @app.job(max_attempts=1)
    async def inside(job: Job, tx: Tx) -> str:
        runs.append(job.attempt)
        if len(runs) == 1:
            await cut_off(here, tx)
        return "done"

    @app.job(max_attempts=1, outside=True)
    async def by_itself(job: Job) -> str:
        runs.append(job.attempt)
        if len(runs) == 1:
            await here.db.execute(CUT_ITSELF)
        return "done"

    here = await bench(app)
    job = await here.engine.enqueue(inside if with_tx else by_itself)
    await here.start_worker()
    finished = await here.engine.wait(job.id, timeout=20)
    assert (finished.outcome, finished.result) == ("success", "done")
    assert runs == [1, 1]
    assert await history(here, job.id) == [("crashed", "connection_lost"), ("success", None)]


@pytest.mark.parametrize("batch", [1, 10])
async def test_a_statement_that_always_kills_its_session_ends_as_a_dead_letter(bench, batch: int) -> None:
    app = Onceward("t")

    @app.job(max_attempts=12)
    async def alone(tx: Tx, *, guilty: bool) -> None:
        if guilty:
            await cut_off(here, tx)

    @app.job(max_attempts=12, batch=10)
    async def together(jobs: list[Job], tx: Tx) -> None:
        if any(job.args["guilty"] for job in jobs):
            await cut_off(here, tx)

    here = await bench(app)
    jobs = await here.engine.enqueue_many([(together if batch > 1 else alone).call(guilty=n == 3) for n in range(6)])
    await here.start_worker(concurrency=1)
    outcomes = [(await here.engine.wait(job.id, timeout=30)).outcome for job in jobs]
    assert outcomes == ["dead_letter" if n == 3 else "success" for n in range(6)]
    assert await here.db.fetchval("select dead_reason from onceward.work") == "connection_lost"
    assert [outcome for outcome, _ in await history(here, jobs[3].id)] == ["crashed", "crashed", "dead_letter"]


async def test_a_session_that_ends_while_the_handler_is_busy_elsewhere_counts_as_a_crash(bench) -> None:
    """As idle_in_transaction_session_timeout does it: the handler notices nothing, and COMMIT is never sent."""
    app = Onceward("t")

    @app.job(max_attempts=12)
    async def slow(tx: Tx) -> None:
        pid = await tx.fetchval("select pg_backend_pid()")
        await here.db.execute("select pg_terminate_backend($1)", pid)
        async with asyncio.timeout(10):
            while await here.db.fetchval("select count(*) from pg_stat_activity where pid = $1", pid):
                await asyncio.sleep(0.01)

    here = await bench(app)
    job = await here.engine.enqueue(slow)
    await here.start_worker()
    assert (await here.engine.wait(job.id, timeout=30)).outcome == "dead_letter"
    assert [outcome for outcome, _ in await history(here, job.id)] == ["crashed", "crashed", "dead_letter"]


async def test_a_restart_of_the_server_is_not_counted(bench) -> None:
    app = Onceward("t")
    runs: list[int] = []

    @app.job(max_attempts=1)
    async def cut(job: Job, tx: Tx) -> None:
        runs.append(job.id)
        if len(runs) <= 4:
            # To PostgreSQL, work that was claimed before the server started was claimed from another server process.
            await here.db.execute("update onceward.work set claimed_at = '2000-01-01' where id = $1", job.id)
            await cut_off(here, tx)

    here = await bench(app)
    job = await here.engine.enqueue(cut)
    await here.start_worker()
    assert (await here.engine.wait(job.id, timeout=20)).outcome == "success"
    assert [outcome for outcome, _ in await history(here, job.id)] == ["snoozed"] * 4 + ["success"]


async def test_what_a_handler_says_itself_counts_more_than_its_lost_connection(bench) -> None:
    app = Onceward("t")

    @app.job
    async def sure(tx: Tx) -> None:
        try:
            await cut_off(here, tx)
        except Exception as error:
            raise Permanent("whatever happened, never again") from error

    @app.job(max_attempts=1)
    async def own_trouble(tx: Tx) -> None:
        await tx.execute("select 1")
        raise ConnectionResetError("a socket of the handler's own")

    here = await bench(app)
    permanent = await here.engine.enqueue(sure)
    failed = await here.engine.enqueue(own_trouble)
    await here.start_worker()
    await here.engine.wait(permanent.id, timeout=20)
    await here.engine.wait(failed.id, timeout=20)
    assert await history(here, permanent.id) == [("dead_letter", "permanent")]
    assert await history(here, failed.id) == [("dead_letter", "max_attempts_exceeded")]


async def test_work_whose_claim_lost_its_connection_before_the_body_was_read_runs(
    bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The claim is committed, so the worker holds the work, although it could not give it to a handler."""
    app = Onceward("t")
    lost: list[int] = []

    async def broken(conn: Connection, ids: list[int]) -> Mapping[int, Any]:
        if not lost:
            lost.extend(ids)
            conn.terminate()
        return await load(conn, ids)

    @app.workflow
    async def trip(wf: Workflow) -> str:
        return "there"

    here = await bench(app)
    started = await here.engine.start_workflow(trip)
    kind = app.registry.kinds["workflow"]
    load = kind.load
    monkeypatch.setattr(kind, "load", broken)
    await here.start_worker()
    finished = await here.engine.wait(started.id, timeout=20)
    assert (finished.outcome, lost) == ("success", [started.id])


async def test_a_connection_lost_by_a_failover_is_not_counted(bench) -> None:
    """A promoted standby has been running for long, so only its new timeline shows that the server has changed."""
    app = Onceward("t")
    runs: list[int] = []

    @app.job
    async def unlucky(tx: Tx) -> None:
        runs.append(1)
        if len(runs) <= 4:
            await here.db.execute("update onceward.server_timeline set timeline = timeline + 1")
            await cut_off(here, tx)

    here = await bench(app)
    await here.db.execute("select onceward.note_timeline()")
    job = await here.engine.enqueue(unlucky)
    await here.start_worker(observe_s=60)
    assert (await here.engine.wait(job.id, timeout=30)).outcome == "success"
    assert [outcome for outcome, _ in await history(here, job.id)] == ["snoozed"] * 4 + ["success"]


async def test_no_worker_is_declared_dead_right_after_a_failover(bench) -> None:
    here = await bench(Onceward("t"))
    settling = "select onceward.server_since() > clock_timestamp() - interval '30 s'"
    await here.db.execute("select onceward.note_timeline()")
    before = await here.db.fetchval("select onceward.server_since()")
    assert before == await here.db.fetchval("select pg_postmaster_start_time()")
    await here.db.execute("update onceward.server_timeline set timeline = timeline + 1, since = '2020-01-01'")
    assert await here.db.fetchval(settling)
    await here.db.execute("select onceward.note_timeline()")
    assert await here.db.fetchval(settling)
    assert await here.db.fetchval("select since from onceward.server_timeline") > before


async def test_a_step_that_is_refused_while_its_connection_breaks_is_compensated(bench) -> None:
    """The refusal is the step's own decision. It must not end the whole workflow as a dead letter that undoes nothing."""
    app = Onceward("t")
    undone: list[str] = []

    async def undo(tx: Tx) -> None:
        undone.append("undone")

    async def refuse(tx: Tx) -> None:
        try:
            await cut_off(here, tx)
        except FAILED:
            raise Permanent("refused") from None

    @app.workflow
    async def trip(wf: Workflow) -> None:
        await wf.compensate(undo)
        await wf.step(refuse)

    here = await bench(app)
    started = await here.engine.start_workflow(trip)
    await here.start_worker()
    assert (await here.engine.wait(started.id, timeout=20)).outcome == "failed"
    assert undone == ["undone"]


async def test_a_worker_that_was_heard_after_a_failover_and_then_dies_is_rescued_without_waiting(bench) -> None:
    """Other workers may still be reconnecting: they get half a minute."""
    here = await bench(Onceward("t"))
    await here.db.execute(
        "insert into onceward.workers (id, name, version, queues, tasks) values (1, 'a', '', '{}', '{}'), (2, 'b', '', '{}', '{}')"
    )
    await here.db.execute("select onceward.note_timeline()")
    await here.db.execute("update onceward.server_timeline set since = clock_timestamp()")
    rescuer = Rescuer(apart_s=0.0)
    async with here.db.acquire() as conn:
        await rescuer.step(conn)
        await conn.execute("update onceward.workers set beat = beat + 1 where id = 1")
        for _ in range(5):
            await rescuer.step(conn)
        assert [row["id"] for row in await conn.fetch("select id from onceward.workers")] == [2]
        # Another failover: everybody is reconnecting again.
        await conn.execute(
            "insert into onceward.workers (id, name, version, queues, tasks) values (1, 'a', '', '{}', '{}')"
        )
        await rescuer.step(conn)
        await conn.execute("update onceward.workers set beat = beat + 1 where id = 1")
        await rescuer.step(conn)
        await conn.execute("update onceward.server_timeline set since = clock_timestamp()")
        for _ in range(5):
            await rescuer.step(conn)
        assert await conn.fetchval("select count(*) from onceward.workers") == 2


async def test_a_node_that_lacks_the_key_of_a_body_wakes_the_others(bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only this node knows when the work is due again: without a wake-up it would claim it first each time."""
    app = Onceward("t")
    lacked: list[int] = []

    async def sealed(conn: Connection, ids: list[int]) -> Mapping[int, Any]:
        if not lacked:
            lacked.extend(ids)
            return {id: Unreadable(UnknownSecretKey("the key is unknown here")) for id in ids}
        return await load(conn, ids)

    @app.workflow
    async def trip(wf: Workflow) -> str:
        return "there"

    here = await bench(app)
    kind = app.registry.kinds["workflow"]
    load = kind.load
    monkeypatch.setattr(kind, "load", sealed)
    monkeypatch.setattr(slots, "OTHER_KEY_S", 0.1)
    worker = await here.start_worker()
    woken: list[str] = []
    monkeypatch.setattr(worker._executor, "wake", woken.append)
    started = await here.engine.start_workflow(trip)
    assert (await here.engine.wait(started.id, timeout=10)).outcome == "success"
    assert (lacked, woken) == ([started.id], ["workflows"])
