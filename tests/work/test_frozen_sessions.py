"""A process that is frozen between two messages of one statement: PostgreSQL shows its session as active and never ends it."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

import psycopg
import pytest
from structlog.testing import capture_logs

from onceward import Onceward
from onceward.testing.polling import until
from onceward.work import rescue
from onceward.work.rescue import Rescuer


@contextmanager
def frozen(url: str, statement: str) -> Generator[int]:
    """Execute a statement in a transaction and send no Sync, as a process that stops here; give the pid of the session."""
    with psycopg.connect(url) as conn:
        conn.execute("begin")
        conn.pgconn.enter_pipeline_mode()
        conn.pgconn.send_query_params(statement.encode(), None)
        conn.pgconn.send_flush_request()
        conn.pgconn.flush()
        try:
            yield conn.info.backend_pid
        finally:
            conn.close()


async def test_work_of_a_process_that_stopped_in_the_middle_of_a_statement_is_rescued(
    bench, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rescue, "LOCK_WAIT_S", 0.1)
    app = Onceward("t")

    @app.job
    async def pack() -> None: ...

    here = await bench(app)
    job = await here.engine.enqueue(pack)
    await here.db.execute(
        "insert into onceward.workers (id, name, version, queues, tasks) values (7, 'frozen', '', '{}', '{}')"
    )
    await here.db.execute("insert into onceward.claims (lease, worker, ids) values (70, 7, array[$1::bigint])", job.id)
    await here.db.execute("update onceward.work set lease = 70, claimed_at = clock_timestamp() where id = $1", job.id)
    patient, strict = Rescuer(apart_s=0.0), Rescuer(apart_s=0.0, stuck_s=0.05)
    with frozen(database_url, f"update onceward.work set earlier = earlier where id = {job.id}") as pid:

        async def is_stuck() -> bool:
            return await here.db.fetchval(
                "select state = 'active' and wait_event = 'ClientRead' and clock_timestamp() - state_change > '0.1 s'"
                " from pg_stat_activity where pid = $1",
                pid,
            )

        await until(is_stuck)
        async with here.db.acquire() as conn:
            with capture_logs() as logs:
                for _ in range(4):
                    assert await patient.step(conn) == []
            assert [each["event"] for each in logs] == ["worker.rescue_waits"], (
                "a rescue that is blocked blocks nothing else"
            )
            rescued = [each for _ in range(5) for each in await strict.step(conn)]
    assert [each.id for each in rescued] == [job.id]
    await here.start_worker()
    assert (await here.engine.wait(job.id, timeout=10)).outcome == "success"
