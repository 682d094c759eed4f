"""Runs: items isolated from each other, a true record, and after an interruption only what is left."""

from __future__ import annotations

import asyncio
import sys
import uuid
from datetime import timedelta

import pytest

from onceward import Onceward, Run, Skip, Tx
from onceward.schedules import StillRunning, history, run_here, run_now
from onceward.schedules.scheduler import write_run

ROWS = [{"id": n} for n in range(1, 11)]


async def wait_for_run(here, id: int, timeout_s: float = 10) -> dict:
    async with asyncio.timeout(timeout_s):
        while True:
            row = await here.db.fetchrow("select * from onceward.runs where id = $1", id)
            if row["status"] not in ("pending", "running"):
                return dict(row)
            await asyncio.sleep(0.02)


async def begin(here, name: str) -> int:
    async with here.engine.transaction() as tx:
        await tx.become_engine()
        return await run_now(tx, here.app.schedules[name], by="tester", waker=here.engine.waker)


async def make_effects(here) -> None:
    await here.db.execute("create table effects (item int primary key); grant all on effects to onceward_app")


async def test_one_failing_item_stops_nothing_and_is_recorded(bench) -> None:
    app = Onceward("t")

    async def do(row: dict, tx: Tx) -> None:
        await tx.execute("insert into effects values ($1)", row["id"])
        if row["id"] == 3:
            raise ValueError("no such thing")
        if row["id"] in (4, 5):
            raise Skip

    @app.cron("0 2 * * *")
    async def nightly(run: Run) -> dict:
        await run.each(ROWS, do, concurrency=3)
        return {"ok": True}

    here = await bench(app)
    await make_effects(here)
    await here.start_worker()
    run = await wait_for_run(here, await begin(here, "nightly"))
    counts = (run["status"], run["processed"], run["succeeded"], run["failed"], run["skipped"])
    assert counts == ("success", 10, 7, 1, 2)
    assert run["result"] == {"ok": True}
    assert run["duration_ms"] is not None
    assert run["started_at"] is not None
    rows = await here.db.fetch("select item from effects order by 1")
    assert [row["item"] for row in rows] == [1, 2, 6, 7, 8, 9, 10]
    [shown] = await history(here.db, "nightly")
    assert [(e["key"], e["type"], e["message"]) for e in shown["errors"]] == [("3", "ValueError", "no such thing")]
    notice = await here.db.fetchrow("select type, severity from onceward.notices")
    assert tuple(notice) == ("CRON_FAILURE", "warn")


async def test_an_item_that_leaks_a_cancellation_or_an_exit_fails_alone(bench) -> None:
    app = Onceward("t")

    async def do(row: dict, tx: Tx) -> None:
        await tx.execute("insert into effects values ($1)", row["id"])
        match row["id"]:
            case 2:
                sys.exit(3)
            case 4:
                raise asyncio.CancelledError
            case 6:
                raise GeneratorExit
            case 8:
                raise BaseExceptionGroup("two", [GeneratorExit(), ValueError()])
            case 10:
                raise ExceptionGroup("one", [ValueError()])
            case _:
                pass

    async def do_many(rows: list[dict], tx: Tx) -> None:
        for row in rows:
            await do({"id": row["id"]}, tx)
        await tx.execute("delete from effects")

    @app.cron("0 2 * * *")
    async def alone(run: Run) -> None:
        await run.each(ROWS, do, concurrency=3)

    @app.cron("0 2 * * *")
    async def in_batches(run: Run) -> None:
        await run.each_batch(ROWS, do_many, size=10)

    here = await bench(app)
    await make_effects(here)
    await here.start_worker()
    for name in ("alone", "in_batches"):
        run = await wait_for_run(here, await begin(here, name))
        assert (run["status"], run["succeeded"], run["failed"]) == ("success", 5, 5), name
        [shown] = await history(here.db, name)
        types = {each["key"]: each["type"] for each in shown["errors"]}
        assert types == {"2": "Leaked", "4": "Leaked", "6": "Leaked", "8": "Leaked", "10": "ExceptionGroup"}
        await here.db.execute("delete from effects")


async def test_an_interrupted_run_does_only_what_is_left(bench) -> None:
    app = Onceward("t")
    done: list[int] = []
    broken = True

    async def do(row: dict, tx: Tx) -> None:
        await tx.execute("insert into effects values ($1)", row["id"])
        done.append(row["id"])

    @app.cron("0 2 * * *", retry=[0.05])
    async def nightly(run: Run) -> None:
        nonlocal broken
        await run.each(ROWS[:6], do)
        if broken:
            broken = False
            raise RuntimeError("cut off")
        await run.each(ROWS[6:], do)

    here = await bench(app)
    await make_effects(here)
    await here.start_worker()
    run = await wait_for_run(here, await begin(here, "nightly"))
    assert (run["status"], run["attempts"], run["processed"], run["succeeded"]) == ("success", 2, 10, 10)
    assert done == list(range(1, 11))
    assert await here.db.fetchval("select count(*) from onceward.notices") == 0


async def test_an_items_own_error_of_the_operating_system_fails_that_item_only(bench) -> None:
    app = Onceward("t")

    async def do(row: dict, tx: Tx) -> None:
        await tx.execute("insert into effects values ($1)", row["id"])
        if row["id"] == 2:
            raise FileNotFoundError("there is no such invoice")
        if row["id"] == 3:
            async with asyncio.timeout(0):
                await asyncio.Event().wait()

    @app.cron("0 2 * * *", retry=[])
    async def nightly(run: Run) -> None:
        await run.each(ROWS, do)

    here = await bench(app)
    await make_effects(here)
    await here.start_worker()
    run = await wait_for_run(here, await begin(here, "nightly"))
    assert (run["status"], run["attempts"], run["succeeded"], run["failed"]) == ("success", 1, 8, 2)
    [shown] = await history(here.db, "nightly")
    assert [(each["key"], each["type"]) for each in shown["errors"]] == [
        ("2", "FileNotFoundError"),
        ("3", "TimeoutError"),
    ]


async def test_a_backend_that_is_cut_inside_an_item_fails_the_run_and_not_the_item(bench) -> None:
    app = Onceward("t")
    cut = True

    async def do(row: dict, tx: Tx) -> None:
        nonlocal cut
        await tx.execute("insert into effects values ($1)", row["id"])
        if cut and row["id"] == 2:
            cut = False
            pid = await tx.fetchval("select pg_backend_pid()")
            await here.db.execute("select pg_terminate_backend($1, 5000)", pid)
            await tx.execute("select 1")

    @app.cron("0 2 * * *", retry=[0.05, 0.05])
    async def nightly(run: Run) -> None:
        await run.each(ROWS[:3], do)

    here = await bench(app)
    await make_effects(here)
    await here.start_worker()
    run = await wait_for_run(here, await begin(here, "nightly"))
    assert (run["status"], run["attempts"], run["succeeded"], run["failed"]) == ("success", 2, 3, 0)


async def test_marks_outlive_their_run_and_are_pruned_a_day_after_it_unless_a_run_still_needs_them(bench) -> None:
    app = Onceward("t")

    async def do(row: dict) -> None:
        if row["id"] == 4:
            raise ValueError("bad")

    @app.cron("0 2 * * *")
    async def nightly(run: Run) -> None:
        await run.each(ROWS, do)

    here = await bench(app)
    await here.start_worker()
    run = await wait_for_run(here, await begin(here, "nightly"))
    await here.stop_workers()
    marks = "select count(*) from onceward.run_items"
    await here.scheduler.prune()
    assert await here.db.fetchval(marks) == 10
    await here.db.execute("update onceward.runs set finished_at = finished_at - interval '25 hours'")
    async with here.db.transaction(role="engine") as tx:
        same = await write_run(tx, app.schedules["nightly"], run["due_at"], origin="operator", scope=run["id"])
        assert same is None
        other = run["due_at"] + timedelta(seconds=1)
        needing = await write_run(tx, app.schedules["nightly"], other, origin="operator", scope=run["id"])
    await here.scheduler.prune()
    assert await here.db.fetchval(marks) == 10
    await here.db.execute("update onceward.runs set status = 'skipped' where id = $1", needing)
    await here.scheduler.prune()
    assert await here.db.fetchval(marks) == 1  # the failed item stays, to be read
    assert await here.db.fetchval("select bool_or(has_marks) from onceward.runs where id = $1", run["id"]) is False


async def test_two_doers_of_one_item_commit_it_once(bench) -> None:
    app = Onceward("t")

    async def do(row: dict, tx: Tx) -> None:
        await tx.execute("insert into effects select coalesce(max(item), 0) + 1 from effects")

    @app.cron("0 2 * * *")
    async def nightly(run: Run) -> None:
        # The worker that was thought dead and the one that took over, at the same time.
        call = run.do_item
        from onceward.schedules.run import caller

        async def both() -> list[str]:
            tasks = (call("step", "a", {"id": 1}, caller(do), None) for _ in range(5))
            return list(await asyncio.gather(*tasks))

        outcomes = await both()
        assert sorted(outcomes) == ["before"] * 4 + ["success"]

    here = await bench(app)
    await make_effects(here)
    await here.start_worker()
    run = await wait_for_run(here, await begin(here, "nightly"))
    assert run["status"] == "success"
    assert await here.db.fetchval("select count(*) from effects") == 1


async def test_a_failed_run_notifies_the_administrators_and_the_next_manual_run_continues_it(bench) -> None:
    app = Onceward("t")
    broken = True
    done: list[int] = []

    async def do(row: dict) -> None:
        if broken and row["id"] == 4:
            raise ValueError("bad")
        done.append(row["id"])

    @app.cron("0 2 * * *", retry=[], name="nightly", severity="CRITICAL")
    async def nightly(run: Run) -> None:
        await run.each(ROWS, do)
        if broken:
            raise RuntimeError("the disk is full")

    here = await bench(app)
    await here.start_worker()
    run = await wait_for_run(here, await begin(here, "nightly"))
    assert (run["status"], run["reason"], run["failed"]) == ("failed", "RuntimeError", 1)
    notice = await here.db.fetchrow("select type, severity, title, details from onceward.notices")
    assert (notice["type"], notice["severity"]) == ("CRON_FAILURE", "fatal")
    assert notice["details"]["run"] == run["id"]
    async with asyncio.timeout(10):  # the job of the run is settled a moment after the run
        while await here.db.fetchval("select count(*) from onceward.work"):
            await asyncio.sleep(0.02)

    broken = False
    done.clear()
    second = await wait_for_run(here, await begin(here, "nightly"))
    assert (second["status"], second["processed"], done) == ("success", 1, [4])
    third = await wait_for_run(here, await begin(here, "nightly"))
    assert third["processed"] == 10


async def test_a_leaked_cancellation_is_a_failure_of_the_run(bench) -> None:
    app = Onceward("t")

    @app.cron("0 2 * * *", retry=[])
    async def nightly(run: Run) -> None:
        other = asyncio.create_task(asyncio.sleep(60))
        await asyncio.sleep(0)
        other.cancel()
        await other

    here = await bench(app)
    await here.start_worker(concurrency=1)
    run = await wait_for_run(here, await begin(here, "nightly"))
    assert (run["status"], run["reason"]) == ("failed", "Leaked")


async def test_an_item_acts_for_its_own_organization(bench) -> None:
    app = Onceward("t")
    seen: dict[str, object] = {}
    one, two = uuid.uuid4(), uuid.uuid4()

    async def do(row: dict, tx: Tx) -> None:
        seen[row["id"]] = await tx.fetchval("select onceward.organization()")

    @app.every(3600)
    async def nightly(run: Run) -> None:
        await run.each([{"id": "a", "organization_id": one}, {"id": "b", "organization_id": two}], do)

    here = await bench(app)
    await here.start_worker()
    await wait_for_run(here, await begin(here, "nightly"))
    assert seen == {"a": one, "b": two}


async def test_a_run_in_the_foreground_reports_and_refuses_to_overlap(bench) -> None:
    app = Onceward("t")
    going = asyncio.Event()
    finish = asyncio.Event()

    @app.cron("0 2 * * *")
    async def nightly(run: Run) -> None:
        going.set()
        await finish.wait()

    @app.cron("0 2 * * *")
    async def breaks(run: Run) -> None:
        raise RuntimeError("no")

    here = await bench(app)
    open_tx = here.engine.open_tx
    first = asyncio.create_task(run_here(here.db, app.schedules["nightly"], open_tx=open_tx, by="tester"))
    await asyncio.wait({first, asyncio.ensure_future(going.wait())}, return_when=asyncio.FIRST_COMPLETED)
    with pytest.raises(StillRunning):
        await run_here(here.db, app.schedules["nightly"], open_tx=open_tx, by="tester")
    finish.set()
    report = await first
    assert (report.status, report.processed) == ("success", 0)
    failed = await run_here(here.db, app.schedules["breaks"], open_tx=open_tx, by="tester")
    assert (failed.status, failed.reason) == ("failed", "RuntimeError")
    assert await here.db.fetchval("select count(*) from onceward.work") == 0
    assert await here.db.fetchval("select count(*) from onceward.workers") == 0


def test_a_function_with_a_wrong_signature_cannot_be_scheduled() -> None:
    app = Onceward("t")
    with pytest.raises(TypeError, match="run: Run"):

        @app.cron("* * * * *")  # pyright: ignore[reportArgumentType]
        async def wrong(run: Run, tx: Tx) -> None: ...

    with pytest.raises(TypeError, match="async def"):

        @app.every(60)  # pyright: ignore[reportArgumentType]
        def plain(run: Run) -> None: ...
