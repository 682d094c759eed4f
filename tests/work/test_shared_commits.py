"""Handlers that wait share one transaction and one commit; each behaves as if it ran alone, and a failure costs only its owner."""

from __future__ import annotations

import asyncio
from typing import Any
from uuid import uuid4

import pytest
from sqlalchemy import text

from onceward import Engine, Job, JobEnd, Onceward, Permanent, Snooze, Tx
from onceward.db import Database
from onceward.sqlalchemy import session_of
from onceward.telemetry.logs import running
from onceward.testing import crash_test, drain, until
from onceward.work import slots
from onceward.work.commit_sharing import WaitedTooLong
from onceward.work.outcomes import Cancelled

EFFECTS = "create table effects (n int, who text default current_setting('onceward.cause')); grant all on effects to onceward_app"


async def effects(db: Database) -> list[int]:
    return [row["n"] for row in await db.fetch("select n from effects order by n")]


async def attempts(db: Database) -> dict[int, list[tuple[str, int | None]]]:
    rows = await db.fetch(
        "select (j.args ->> 'n')::int as n, a.outcome::text, a.shared from onceward.attempts a"
        " join onceward.jobs j on j.id = a.work_id order by a.work_id, a.number, a.finished_at"
    )
    found: dict[int, list[tuple[str, int | None]]] = {}
    for row in rows:
        found.setdefault(row["n"], []).append((row["outcome"], row["shared"]))
    return found


async def commits(db: Database) -> int:
    return await db.fetchval("select count(distinct xmin::text) from effects")


def plain_app(**options: Any) -> Onceward:
    app = Onceward("t")

    @app.job(retry=[], **options)
    async def note(tx: Tx, *, n: int) -> int:
        await tx.execute("insert into effects values ($1)", n)
        return n

    return app


async def test_handlers_that_wait_share_a_commit_and_each_is_itself(db: Database) -> None:
    app = Onceward("t")
    after: list[int] = []

    @app.job
    async def note(job: Job, tx: Tx, *, n: int) -> dict[str, int]:
        await tx.execute("insert into effects values ($1)", n)
        assert tx.organization == job.organization
        seen = await tx.fetchval("select current_setting('onceward.organization')")
        assert seen == str(job.organization or "")
        tx.after_commit(lambda: after.append(n))
        assert after == []
        await tx.enqueue(caused, n=n)
        return {"n": n}

    @app.job
    async def caused(job: Job, tx: Tx, *, n: int) -> int | None:
        return job.caused_by

    await db.execute(EFFECTS)
    engine = Engine(db, app.registry)
    organizations = [None, uuid4(), uuid4()]
    jobs = [await engine.enqueue(note.for_organization(organizations[n % 3]), n=n) for n in range(7)]
    assert await drain(engine) == 14
    assert await commits(db) == 1
    assert after == list(range(7))
    rows = await db.fetch("select n, who from effects order by n")
    assert [row["who"] for row in rows] == [f"job:{job.id}" for job in jobs]
    for n, job in enumerate(jobs):
        row = await db.fetchrow(
            "select a.*, (select max(caused_by) from onceward.jobs c where c.task = 'caused' and (c.args ->> 'n')::int = $2) as cause"
            " from onceward.attempts a where work_id = $1",
            job.id,
            n,
        )
        assert row is not None
        assert (row["result"], row["shared"], row["number"], row["cause"]) == ({"n": n}, 7, 1, job.id)
        assert row["started_at"] <= row["finished_at"]
        assert row["organization_id"] == organizations[n % 3]


FAILURES: dict[str, Any] = {
    "error": ("raise", ValueError("no"), "dead_letter"),
    "permanent": ("raise", Permanent("never"), "dead_letter"),
    "snooze": ("raise", Snooze(3600), "snoozed"),
    "check": ("sql", "insert into checked values (13)", "dead_letter"),
    "deferred": ("sql", "insert into late values (13), (13)", "dead_letter"),
    "swallowed": ("swallow", "insert into checked values (13)", "dead_letter"),
    "role": ("sql", "set local role none", "dead_letter"),
    "commit": ("sql", "commit", "dead_letter"),
    "rollback": ("sql", "rollback", "dead_letter"),
    "commit and begin": ("sql", "commit; begin", "dead_letter"),
    "hidden commit": ("sql", "select 'a--b'; /* x */ commit", "dead_letter"),
    "caught": ("swallow", "commit", "dead_letter"),
    "in session": ("session", "commit", "dead_letter"),
    "foreign savepoint": ("sql", "rollback to savepoint other", "dead_letter"),
}


@pytest.mark.parametrize("how", FAILURES)
@pytest.mark.parametrize("place", [0, 2, 4])
async def test_a_failure_costs_only_its_owner(db: Database, how: str, place: int) -> None:
    app = Onceward("t")
    way, what, outcome = FAILURES[how]
    calls: list[int] = []

    @app.job(retry=[])
    async def note(tx: Tx, *, n: int) -> None:
        calls.append(n)
        await tx.execute("insert into effects values ($1)", n)
        await tx.execute("savepoint other")
        if n != place:
            return
        if way == "raise":
            raise what
        if way == "sql" and "other" in what:
            await tx.execute("release savepoint other")
        if way == "session":
            async with session_of(tx) as session:
                await session.execute(text(what))
        try:
            await tx.execute(what)
        except Exception:
            if way != "swallow":
                raise

    await db.execute(EFFECTS)
    await db.execute("create table checked (n int check (n <> 13)); grant all on checked to onceward_app")
    await db.execute(
        "create table late (n int, unique (n) deferrable initially deferred); grant all on late to onceward_app"
    )
    engine = Engine(db, app.registry)
    await engine.enqueue_many([note.call(n=n) for n in range(5)])
    await drain(engine)
    found = await attempts(db)
    others = [n for n in range(5) if n != place]
    assert [found[n][0][0] for n in others] == ["success"] * 4
    assert {n: len(each) for n, each in found.items()} == dict.fromkeys(range(5), 1)
    assert found[place] == [(outcome, None)]
    written = await effects(db)
    ends_it = how.startswith(("commit", "hidden", "caught", "in session"))
    assert [n for n in written if n != place] == others
    assert written.count(place) == (1 if ends_it else 0)  # alone, a handler that commits commits what it wrote, as ever
    assert max(calls.count(n) for n in others) <= 3


async def test_what_one_handler_sets_does_not_reach_the_next(db: Database) -> None:
    app = Onceward("t")
    settings = {
        1: "set local statement_timeout = '7s'",
        2: "select set_config('app.user', 'two', true)",
        3: "create temp table mine (n int) on commit drop",
        4: "do $$ begin perform set_config('app.user', 'four', true); end $$",
        5: "declare c cursor for select 1",
        6: "select pg_advisory_xact_lock(6)",
        7: "set constraints all immediate",
    }

    @app.job(retry=[])
    async def note(tx: Tx, *, n: int) -> list[Any]:
        await tx.execute("insert into effects values ($1)", n)
        seen = await tx.fetchrow(
            "select current_setting('statement_timeout') as timeout, current_setting('app.user', true) as who,"
            " to_regclass('pg_temp.mine')::text as mine, (select count(*) from pg_cursors where name = 'c') as cursors,"
            " (select count(*) from pg_locks where locktype = 'advisory' and objid = 6 and pid = pg_backend_pid()) as locks"
        )
        if n in settings:
            await tx.execute(settings[n])
        assert seen is not None
        return [seen["timeout"], seen["who"] or "", seen["mine"], seen["cursors"], seen["locks"]]

    await db.execute(EFFECTS)
    engine = Engine(db, app.registry)
    await db.execute(
        "do $$ begin execute format('grant temp on database %I to onceward_app', current_database()); end $$"
    )
    await engine.enqueue_many([note.call(n=n) for n in (0, 1, 0, 2, 0, 3, 0, 4, 0, 5, 0, 6, 0, 7, 0, 0)])
    await drain(engine)
    results = await db.fetch("select result from onceward.attempts order by work_id")
    assert [row["result"] for row in results] == [["0", "", None, 0, 0]] * 16
    assert await commits(db) == 8


async def test_what_may_not_share_runs_alone(db: Database) -> None:
    app = Onceward("t")
    alone: dict[str, Any] = {
        "opted out": {"shared": False},
        "calls outside": {"outside": True},
        "endless": {"timeout": None},
        "long": {"timeout": 300},
        "hooked": {},
    }
    for name, options in alone.items():

        @app.job(name=name, retry=[0.0], **options)
        async def note(tx: Tx, *, n: int) -> None:
            await tx.execute("insert into effects values ($1)", n)

        if name == "hooked":

            @note.on_end
            async def ended(tx: Tx, end: JobEnd) -> None:
                await tx.execute("insert into effects values ($1)", -end.arguments["n"])

    @app.job(name="usual", retry=[0.0])
    async def usual(tx: Tx, *, n: int) -> None:
        await tx.execute("insert into effects values ($1)", n)

    @app.job(batch=5)
    async def together(jobs: list[Job], tx: Tx) -> None:
        await tx.execute("insert into effects select unnest($1::int[])", [job.args["n"] for job in jobs])

    await db.execute(EFFECTS)
    engine = Engine(db, app.registry)
    for name in [*alone, "together"]:
        for each in (name, "usual", "usual", name, name, "usual"):
            await db.fetchval("select onceward.enqueue($1, $2)", each, {"n": 1})
        await drain(engine)
        rows = await db.fetch("select task, shared from onceward.attempts")
        assert {row["shared"] for row in rows if row["task"] == name} == ({3} if name == "together" else {None})
        assert any(row["shared"] in (2, 3) for row in rows if row["task"] == "usual"), (name, rows)
        await db.execute("truncate onceward.attempts, onceward.jobs")
    for setting in ("attempts = 1", "crashes = 2"):
        ids = [await db.fetchval("select onceward.enqueue('usual', $1)", {"n": 1}) for _ in range(4)]
        await db.execute(f"update onceward.work set {setting} where id = $1", ids[1])
        await drain(engine)
        rows = await db.fetch("select shared from onceward.attempts order by work_id")
        assert rows[1]["shared"] is None or setting.startswith("attempts"), setting
        await db.execute("truncate onceward.attempts, onceward.jobs")


async def test_members_of_bundles_and_jobs_with_unique_keys_share(db: Database) -> None:
    app = Onceward("t")

    @app.job(retry=[])
    async def note(tx: Tx, *, n: int) -> None:
        await tx.execute("insert into effects values ($1)", n)
        if n == 1:  # another caller replaces the arguments while the job runs: it runs again
            await engine.enqueue(note.unique("k1", on_conflict="replace"), n=11)

    await db.execute(EFFECTS)
    engine = Engine(db, app.registry)
    async with engine.transaction() as tx:
        await tx.enqueue_then([note.call(n=20 + n) for n in range(3)], note.call(n=30))
    await drain(engine)
    assert await effects(db) == [20, 21, 22, 30]
    rows = await db.fetch("select shared from onceward.attempts order by finished_at, work_id")
    assert [row["shared"] for row in rows] == [3, 3, 3, None], (
        "the job after the bundle waits for the commit of its members"
    )
    await db.execute("truncate effects, onceward.attempts")
    for _ in range(2):  # the keys are free again after the commit
        await engine.enqueue_many([note.unique(f"k{n}").call(n=n) for n in range(4)])
        await drain(engine)
        assert await effects(db) == [0, 1, 2, 3, 11]
        assert await db.fetchval("select count(*) from onceward.attempts where shared > 1") >= 3
        await db.execute("truncate effects, onceward.attempts")


async def test_a_lost_lease_costs_only_its_owner_and_nothing_happens_twice(db: Database) -> None:
    app = Onceward("t")
    stolen: list[int] = []

    @app.job(retry=[])
    async def note(job: Job, tx: Tx, *, n: int) -> None:
        await tx.execute("insert into effects values ($1)", n)
        if n == 3 and not stolen:
            stolen.append(job.id)
            await db.execute("update onceward.work set lease = 1 where id = $1", job.id)

    await db.execute(EFFECTS)
    engine = Engine(db, app.registry)
    await engine.enqueue_many([note.call(n=n) for n in range(6)])
    await drain(engine)
    assert await effects(db) == [0, 1, 2, 4, 5]
    await db.execute("update onceward.work set lease = null where id = $1", stolen[0])
    await drain(engine)
    assert await effects(db) == [0, 1, 2, 3, 4, 5]


async def test_the_twin_without_the_fence_does_a_stolen_member_twice(db: Database) -> None:
    """The proof that the test above can fail: without the check of the leases, both holders commit."""
    app = Onceward("t")
    stolen: list[int] = []

    @app.job(retry=[])
    async def note(job: Job, tx: Tx, *, n: int) -> None:
        await tx.execute("insert into effects values ($1)", n)
        if n == 3 and not stolen:
            stolen.append(job.id)
            await db.execute("update onceward.work set lease = 1 where id = $1", job.id)

    await db.execute(EFFECTS)
    fenced: str = await db.fetchval("select pg_get_functiondef('onceward.finish_batch'::regproc)")
    await db.execute(
        fenced.replace("raise exception 'a batch", "raise notice 'a batch").replace(" using errcode = 'OW001'", "")
    )
    engine = Engine(db, app.registry)
    await engine.enqueue_many([note.call(n=n) for n in range(6)])
    await drain(engine)
    await db.execute("update onceward.work set lease = null where id = $1", stolen[0])
    await drain(engine)
    assert await effects(db) == [0, 1, 2, 3, 3, 4, 5]


async def test_a_group_survives_a_crash_at_every_gate_with_every_kind_of_failure(db: Database, thorough: bool) -> None:
    app = Onceward("t")

    @app.job(retry=[0.0])
    async def note(job: Job, tx: Tx, *, n: int) -> None:
        await tx.execute("insert into effects values ($1)", n)
        await tx.enqueue(follow.unique(f"f{n}"), n=n)
        if n == 2:
            raise Permanent("bad")
        if n == 4 and job.attempt == 1:
            raise ValueError("once")
        if n == 5:
            await tx.execute("insert into late values (5), (5)")
        claimed = running.get()
        if n == 7 and claimed is not None and claimed.follows_others:  # as its slot would stop it
            raise WaitedTooLong("slow")
        if n == 8:
            raise Cancelled("by an operator")

    @app.job
    async def follow(tx: Tx, *, n: int) -> None:
        await tx.execute("insert into effects values ($1)", 100 + n)

    await db.execute(EFFECTS)
    await db.execute(
        "create table late (n int, unique (n) deferrable initially deferred); grant all on late to onceward_app"
    )
    engine = Engine(db, app.registry)

    async def observe() -> Any:
        ended = await db.fetch(
            "select j.args ->> 'n' as n, a.task, a.outcome::text from onceward.attempts a join onceward.jobs j on j.id = a.work_id"
            " where a.outcome <> 'crashed' order by 1, 2, 3"
        )
        dead = await db.fetchval("select count(*) from onceward.work where dead_reason is not null")
        left = await db.fetchval("select count(*) from onceward.work where dead_reason is null")
        return await effects(db), [tuple(row) for row in ended], dead, left

    async def reset() -> None:
        await db.execute(
            "truncate effects, onceward.jobs, onceward.work, onceward.attempts, onceward.claims, onceward.unique_keys"
        )

    async def arrange() -> None:
        await engine.enqueue_many([note.call(n=n) for n in range(9)])

    gates = await crash_test(engine, arrange=arrange, observe=observe, reset=reset, every=thorough)
    assert gates.count("before-join") >= 8
    assert {"after-begin", "after-join", "before-commit", "after-commit", "after-settle"} <= set(gates)
    found, ended, *_ = await observe()
    assert found == [0, 1, 3, 4, 6, 7, 100, 101, 103, 104, 106, 107]
    assert ("8", "note", "cancelled") in ended


async def test_a_worker_shares_under_backlog_and_not_without_one(bench, patient: None) -> None:
    here = await bench(plain_app())
    await here.db.execute(EFFECTS)
    note = here.app.registry.tasks["note"]
    assert note.shares
    for n in range(60):
        await here.db.fetchval("select onceward.enqueue('note', $1)", {"n": n})
    await here.start_worker(concurrency=2)
    await until(lambda: _is_idle(here.db), timeout_s=20)
    assert await effects(here.db) == list(range(60))
    assert await commits(here.db) < 40
    await here.db.execute("truncate onceward.attempts, effects")
    for n in range(5):
        id = await here.db.fetchval("select onceward.enqueue('note', $1)", {"n": n})
        assert (await here.engine.wait(id, timeout=10)).outcome == "success"
    assert await here.db.fetchval("select count(*) from onceward.attempts where shared is not null") == 0


async def test_a_queue_can_opt_out(bench, patient: None) -> None:
    here = await bench(plain_app())
    await here.db.execute(EFFECTS)
    for n in range(30):
        await here.db.fetchval("select onceward.enqueue('note', $1)", {"n": n})
    await here.start_worker(concurrency=1, unshared_queues=("default",))
    await until(lambda: _is_idle(here.db), timeout_s=20)
    assert await commits(here.db) == 30


async def _is_idle(db: Database) -> bool:
    return not await db.fetchval("select exists (select from onceward.work where dead_reason is null)")


@pytest.mark.parametrize("how", ["timeout", "cancel", "slow"])
async def test_a_member_that_is_stopped_costs_only_itself(bench, patient: None, monkeypatch, how: str) -> None:
    app = Onceward("t")
    stuck = asyncio.Event()

    @app.job(retry=[], timeout=0.4 if how == "timeout" else 30)
    async def note(job: Job, tx: Tx, *, n: int) -> None:
        await tx.execute("insert into effects values ($1)", n)
        if n == 7 and (how != "slow" or not stuck.is_set()):
            stuck.set()
            await asyncio.sleep(20)

    here = await bench(app)
    await here.db.execute(EFFECTS)
    if how == "slow":
        monkeypatch.setattr(slots, "PATIENCE_S", 0.0)
    jobs = await here.engine.enqueue_many([note.call(n=n) for n in range(10)])
    worker = await here.start_worker(concurrency=1)
    if how == "cancel":
        await asyncio.wait_for(stuck.wait(), 10)
        assert await here.db.fetchval("select onceward.cancel($1)", jobs[7].id) == "asked"
        worker._cancel({jobs[7].id})
    await until(lambda: _is_idle(here.db), timeout_s=20)
    found = await attempts(here.db)
    assert found[5][0][1] is not None
    outcome = {"timeout": "dead_letter", "cancel": "cancelled", "slow": "success"}[how]
    assert found.pop(7) == [(outcome, None)]
    assert {n: [each[0] for each in of] for n, of in found.items()} == {n: ["success"] for n in range(10) if n != 7}
    assert await effects(here.db) == [n for n in range(10) if n != 7 or how == "slow"]


async def test_stopping_a_worker_gives_back_a_whole_group(bench, patient: None) -> None:
    app = Onceward("t")
    stuck = asyncio.Event()

    @app.job(retry=[])
    async def note(tx: Tx, *, n: int) -> None:
        await tx.execute("insert into effects values ($1)", n)
        if n == 5 and not stuck.is_set():
            stuck.set()
            await asyncio.sleep(30)

    here = await bench(app)
    await here.db.execute(EFFECTS)
    await here.engine.enqueue_many([note.call(n=n) for n in range(8)])
    await here.start_worker(concurrency=1, grace_s=0.0)
    await asyncio.wait_for(stuck.wait(), 10)
    await here.stop_workers()
    here.workers.clear()
    assert await here.db.fetchval("select count(*) from onceward.work where lease is not null") == 0
    await here.start_worker(concurrency=1)
    await until(lambda: _is_idle(here.db), timeout_s=20)
    assert await effects(here.db) == list(range(8))
    assert {each[-1][0] for each in (await attempts(here.db)).values()} == {"success"}


async def test_a_lost_connection_in_a_group_charges_nobody_else(bench, patient: None) -> None:
    app = Onceward("t")
    cut: list[int] = []

    @app.job(retry=[])
    async def note(tx: Tx, *, n: int) -> None:
        await tx.execute("insert into effects values ($1)", n)
        if n == 5 and not cut:
            cut.append(n)
            await here.db.execute("select pg_terminate_backend($1)", await tx.fetchval("select pg_backend_pid()"))
            await tx.execute("select 1")

    here = await bench(app)
    await here.db.execute(EFFECTS)
    await here.engine.enqueue_many([note.call(n=n) for n in range(8)])
    await here.start_worker(concurrency=1)
    await until(lambda: _is_idle(here.db), timeout_s=20)
    assert await effects(here.db) == list(range(8))
    found = await attempts(here.db)
    assert {each[0] for of in found.values() for each in of} == {"success"}
    assert found[3][0][1] is not None
