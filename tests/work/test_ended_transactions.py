"""A handler that ends its own transaction, or changes its role, fails clearly and is not retried."""

from __future__ import annotations

import pytest
from sqlalchemy import text

from onceward import Job, JobEnd, Onceward, Tx
from onceward.db import Database, TransactionEnded
from onceward.sqlalchemy import session_of

ENDINGS = {
    "rollback": ["rollback"],
    "commit": ["commit"],
    "again": ["rollback", "begin"],
    "chain": ["commit and chain"],
    "script": ["select 1; commit; begin"],
    "role": ["reset role"],
    "local role": ["set local role none"],
    "block": ["do $$ begin execute 'set local role none'; end $$"],
    "quiet": ["savepoint s", "insert into effects values (99)", "rollback to savepoint s"],
}
CHANGES_ROLE = ("role", "local role", "block")


def make_app() -> Onceward:
    app = Onceward("t")

    @app.job(retry=[0.0])
    async def end(tx: Tx, *, n: int, how: str, fails: bool = False) -> None:
        await tx.execute("insert into effects values ($1)", n)
        for statement in ENDINGS[how]:
            await tx.execute(statement)
        if fails:
            raise ValueError("after the end")

    @app.job(retry=[0.0])
    async def end_in_session(tx: Tx, *, n: int, how: str) -> None:
        async with session_of(tx) as session:
            await session.execute(text("insert into effects values (:n)"), {"n": n})
            for statement in ENDINGS[how]:
                await session.execute(text(statement.replace(":", r"\:")))

    @app.job(retry=[0.0])
    async def end_with_hook(tx: Tx, *, n: int, how: str) -> None:
        for statement in ENDINGS[how]:
            await tx.execute(statement)

    @end_with_hook.on_end
    async def note(tx: Tx, ended: JobEnd) -> None:
        await tx.execute("insert into effects values ($1)", -ended.id)

    @app.job(batch=5, retry=[0.0])
    async def end_batch(jobs: list[Job], tx: Tx) -> None:
        await tx.execute("select 1")
        for job in jobs:
            for statement in ENDINGS[job.args["how"]]:
                await tx.execute(statement)

    return app


async def test_a_handler_that_ends_its_transaction_or_changes_its_role_is_a_dead_letter_at_once(bench) -> None:
    app = make_app()
    here = await bench(app)
    await here.db.execute("create table effects (n int); grant all on effects to onceward_app")
    ids: dict[int, tuple[str, str]] = {}
    for task in ("end", "end_in_session", "end_with_hook"):
        for n, how in enumerate(ENDINGS):
            if (task, how) == ("end_in_session", "script"):
                continue  # SQLAlchemy prepares each statement, so a script is refused
            id = await here.db.fetchval("select onceward.enqueue($1, $2)", task, {"how": how, "n": n})
            ids[id] = (task, how)
    await here.start_worker(concurrency=2)
    for id, (task, how) in ids.items():
        ended = await here.engine.wait(id, timeout=20)
        if how == "quiet":
            assert ended.outcome == "success", (task, ended)
            continue
        assert ended.outcome == "dead_letter", (task, how, ended)
        assert ended.error is not None
        expected = "RoleChanged" if how in CHANGES_ROLE else "TransactionEnded"
        assert ended.error["type"] == expected, (task, how, ended)
        assert await here.db.fetchval("select count(*) from onceward.attempts where work_id = $1", id) == 1
    hooked = await here.db.fetchval("select array_agg(-n) from effects where n < 0")
    assert set(hooked) == {id for id, (task, _) in ids.items() if task == "end_with_hook"}


@pytest.mark.parametrize(("how", "outcome_of_the_other"), [("role", "success"), ("commit", "dead_letter")])
async def test_a_batch_runs_again_only_if_nothing_of_it_can_be_committed(bench, how, outcome_of_the_other) -> None:
    here = await bench(make_app())
    await here.db.execute("create table effects (n int); grant all on effects to onceward_app")
    ids = [await here.db.fetchval("select onceward.enqueue('end_batch', $1)", {"how": each}) for each in (how, "quiet")]
    await here.start_worker(concurrency=1)
    outcomes = [(await here.engine.wait(id, timeout=20)).outcome for id in ids]
    assert outcomes == ["dead_letter", outcome_of_the_other]


async def test_a_handler_that_commits_and_fails_is_not_retried(bench) -> None:
    app = make_app()
    here = await bench(app)
    await here.db.execute("create table effects (n int); grant all on effects to onceward_app")
    id = await here.db.fetchval("select onceward.enqueue('end', $1)", {"n": 1, "how": "commit", "fails": True})
    await here.start_worker(concurrency=1)
    ended = await here.engine.wait(id, timeout=10)
    assert (ended.outcome, (ended.error or {})["type"]) == ("dead_letter", "TransactionEnded")
    assert "ValueError" in ended.error["message"]
    assert await here.db.fetchval("select array_agg(n) from effects") == [1]


async def test_a_transaction_outside_a_handler_notices_its_end_too(db: Database) -> None:
    with pytest.raises(TransactionEnded):
        async with db.transaction() as tx:
            await tx.execute("rollback")


async def test_a_handler_may_leave_its_transaction_idle_for_as_long_as_its_timeout(bench) -> None:
    app = Onceward("t")
    show = "show idle_in_transaction_session_timeout"

    @app.job(timeout=300)
    async def patient(tx: Tx) -> str:
        return await tx.fetchval(show)

    @app.job(timeout=None)
    async def endless(tx: Tx) -> str:
        return await tx.fetchval(show)

    @app.job
    async def ordinary(tx: Tx) -> str:
        return await tx.fetchval(show)

    here = await bench(app)
    jobs = [await here.engine.enqueue(each) for each in (patient, ordinary, endless, ordinary)]
    await here.start_worker(concurrency=1)
    results = [(await here.engine.wait(job.id, timeout=10)).result for job in jobs]
    assert results == ["315s", "1min", "0", "1min"]
