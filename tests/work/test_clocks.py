"""The database's clock moves back: work that was due stays due, and workers that are silent are still declared dead."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta

import pytest
from structlog.testing import capture_logs

from onceward import Onceward, Tx, Workflow
from onceward.limits import Rate
from onceward.testing import FrozenClock
from onceward.work.rescue import Rescuer
from onceward.work.statements import OBSERVE_WORKERS
from onceward.workflows.errors import Parked
from onceward.workflows.run import WorkflowRun

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)


async def due_times(here) -> list[float]:
    """Return how many seconds from now each piece of work is due."""
    rows = await here.db.fetch(
        "select extract(epoch from sort_at - onceward.now())::float8 as due_s from onceward.work order by id"
    )
    return [round(row["due_s"]) for row in rows]


async def step(here) -> list[str]:
    """Let a rescuer look once, and return what it logs."""
    with capture_logs() as logs:
        async with here.db.acquire() as conn:
            await Rescuer().step(conn)
    return [entry["event"] for entry in logs]


async def test_work_that_was_due_before_the_clock_moved_back_stays_due(bench) -> None:
    app = Onceward("t")

    @app.job
    async def anything(tx: Tx) -> None: ...

    here = await bench(app)
    async with FrozenClock(here.db, NOW) as clock:
        await step(here)
        await clock.advance(HOUR)
        await step(here)
        for delay in (timedelta(0), timedelta(seconds=20), timedelta(days=1)):
            await here.engine.enqueue(anything.schedule_in(delay))
        assert await due_times(here) == [0, 20, 86_400]
        await clock.move_to(NOW)
        assert await step(here) == ["database.clock_moved_back"]
        # Tomorrow's work may have been asked for at a time of day: its time stays.
        assert await due_times(here) == [0, 20, 86_400 + 3600]
        assert await step(here) == []
        assert await due_times(here) == [0, 20, 86_400 + 3600]


async def test_transactions_that_began_before_the_clock_moved_back_are_waited_for(bench) -> None:
    """They write times of the old clock when they commit, which may be after the move."""
    here = await bench(Onceward("t"))
    await step(here)
    await here.db.execute("update onceward.server_timeline set clock = clock + interval '1 hour'")
    # As if a transaction had begun an hour from now.
    await here.db.execute(
        "create view public.pg_stat_activity as select pid, backend_type, wait_event_type, usesysid, datname,"
        " clock_timestamp() + interval '1 hour' as xact_start from pg_catalog.pg_stat_activity;"
        " alter function onceward.server_sessions() set search_path = public, pg_catalog"
    )
    for _ in range(2):
        assert await here.db.fetchval("select onceward.note_clock()") is None
    await here.db.execute("update onceward.server_timeline set back_since = back_since - interval '2 minutes'")
    assert (await here.db.fetchval("select onceward.note_clock()")).total_seconds() > 3500
    assert await step(here) == []


async def test_a_clock_that_moves_back_by_little_or_forward_moves_nothing(bench) -> None:
    app = Onceward("t")

    @app.job
    async def anything(tx: Tx) -> None: ...

    here = await bench(app)
    async with FrozenClock(here.db, NOW) as clock:
        await step(here)
        await here.engine.enqueue(anything)
        await clock.move_to(NOW - timedelta(seconds=4))
        assert await step(here) == []
        assert await due_times(here) == [4]
        await clock.move_to(NOW + HOUR)
        assert await step(here) == []
        assert await due_times(here) == [-3600]


async def test_a_sleeping_workflow_wakes_up_although_the_clock_moved_back(bench) -> None:
    app = Onceward("t")

    @app.workflow
    async def nap(wf: Workflow) -> str:
        await wf.sleep(0.5)
        return "awake"

    here = await bench(app)
    async with here.db.acquire() as conn:
        await Rescuer().step(conn)
    await here.start_worker(observe_s=0.2)
    started = await here.engine.start_workflow(nap)
    parked = "select exists (select from onceward.work where id = $1 and lease is null and sort_at > onceward.now())"
    while not await here.db.fetchval(parked, started.id):
        pass
    # As if the clock had been an hour ahead until now.
    async with here.db.acquire() as conn, conn.transaction():
        await conn.execute("update onceward.work set sort_at = sort_at + interval '1 hour'")
        await conn.execute("update onceward.workflow_steps set due_at = due_at + interval '1 hour'")
        await conn.execute("update onceward.server_timeline set clock = clock + interval '1 hour'")
    assert (await here.engine.wait(started.id, timeout=20)).outcome == "success"


async def test_a_workflow_that_parks_while_the_clock_moves_back_does_not_wait_for_the_old_time(
    bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = Onceward("t")

    @app.workflow
    async def nap(wf: Workflow) -> str:
        await wf.sleep(0.2)
        return "awake"

    park = WorkflowRun._park
    moved: list[bool] = []

    async def park_after_the_move(self: WorkflowRun, parked: Parked) -> None:
        assert parked.until is not None
        if not moved:
            # The history was loaded with a time of the old clock, which was moved since.
            await here.db.execute("update onceward.server_timeline set moves = moves + 1")
            parked = Parked(parked.until + HOUR)
            moved.append(True)
        await park(self, parked)

    monkeypatch.setattr(WorkflowRun, "_park", park_after_the_move)
    here = await bench(app)
    await step(here)
    await here.start_worker()
    started = await here.engine.start_workflow(nap)
    assert (await here.engine.wait(started.id, timeout=20)).outcome == "success"
    assert moved


async def test_an_allowance_refills_although_the_clock_moved_back(bench) -> None:
    here = await bench(Onceward("t"))
    rate = Rate(1, per_s=60)
    await step(here)
    async with here.db.acquire() as conn:
        assert await rate.take(conn, "k") == 0
        await conn.execute("update onceward.rates set full_at = full_at + interval '1 hour'")
        await conn.execute("update onceward.server_timeline set clock = clock + interval '1 hour'")
        assert await rate.take(conn, "k") > 3600
        await Rescuer().step(conn)
        assert 0 < await rate.take(conn, "k") <= 62


async def test_a_worker_can_be_declared_dead_after_the_clock_moved_back(bench) -> None:
    """The server has then started in the future. It is not settling in for an hour."""
    here = await bench(Onceward("t"))
    await step(here)
    settling = f"select settling from ({OBSERVE_WORKERS}) observed"
    await here.db.execute(
        "insert into onceward.workers (id, name, version, queues, tasks) values (7, 'w', '1', '{}', '{}')"
    )
    for since, expected in (("clock_timestamp() + interval '1 hour'", False), ("clock_timestamp()", True)):
        await here.db.execute(f"update onceward.server_timeline set since = {since}")
        assert await here.db.fetchval(settling, 30.0) is expected


async def test_attempts_have_the_times_of_the_database_whatever_the_clock_of_a_node_says(
    bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = Onceward("t")

    @app.job
    async def inside(tx: Tx) -> None: ...

    @app.job(retry=[])
    async def fails() -> None:
        raise RuntimeError("refused")

    @app.workflow
    async def flow(wf: Workflow) -> None: ...

    here = await bench(app)
    now = time.time
    monkeypatch.setattr(time, "time", lambda: now() - 86_400)
    started = [await here.engine.enqueue(inside), await here.engine.enqueue(fails)]
    started.append(await here.engine.start_workflow(flow))
    await here.start_worker()
    for each in started:
        await here.engine.wait(each.id)
    rows = await here.db.fetch(
        "select kind, outcome from onceward.attempts"
        " where started_at between clock_timestamp() - interval '1 hour' and finished_at order by 1, 2"
    )
    assert [tuple(row) for row in rows] == [("job", "dead_letter"), ("job", "success"), ("workflow", "success")]
