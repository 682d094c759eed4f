"""Items in batches: few transactions, one outcome per item, and after an interruption only what is left."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID

import pytest

from onceward import BatchResult, Onceward, Run, Tx
from onceward.schedules import history, run_here
from onceward.schedules.batches import MOST_FAILURES_IN_A_ROW
from onceward.testing import Crash, give_back
from onceward.work import gate

ROWS = [{"id": n} for n in range(1, 41)]


async def here_with(bench: Any, app: Onceward) -> Any:
    here = await bench(app)
    await here.db.execute("create table effects (item int primary key); grant all on effects to onceward_app")
    return here


async def execute(here: Any, name: str) -> Any:
    return await run_here(here.db, here.app.schedules[name], open_tx=here.engine.open_tx, by="tester")


async def insert(items: list[Any], tx: Tx) -> None:
    await tx.execute("insert into effects select unnest($1::int[])", [item["id"] for item in items])


async def test_a_failing_item_is_found_by_splitting_its_batch_and_all_others_are_done(bench: Any) -> None:
    app = Onceward("t")
    failed: list[tuple[int, str]] = []

    async def do(items: list[Any], tx: Tx) -> None:
        await insert(items, tx)
        if any(item["id"] in (3, 17) for item in items):
            raise FileNotFoundError("no such invoice")

    async def note(item: Any, error: BaseException) -> None:
        failed.append((item["id"], str(error)))

    @app.cron("0 2 * * *", retry=[])
    async def nightly(run: Run) -> None:
        await run.each_batch(ROWS, do, size=20, on_failed=note)

    here = await here_with(bench, app)
    report = await execute(here, "nightly")
    assert (report.status, report.processed, report.succeeded, report.failed) == ("success", 40, 38, 2)
    assert [item for item, _ in failed] == [3, 17]
    assert await here.db.fetchval("select count(*) from effects") == 38
    [shown] = await history(here.db, "nightly")
    assert sorted((each["key"], each["type"], each["message"]) for each in shown["errors"]) == [
        ("17", "FileNotFoundError", "no such invoice"),
        ("3", "FileNotFoundError", "no such invoice"),
    ]


async def test_a_batch_names_what_it_skipped_and_what_failed_in_the_commit_of_the_rest(bench: Any) -> None:
    app = Onceward("t")

    async def do(items: list[Any], tx: Tx) -> BatchResult:
        await insert(items, tx)
        return BatchResult(skipped=[4, 5], failed={6: "given up"})

    @app.cron("0 2 * * *")
    async def nightly(run: Run) -> None:
        await run.each_batch(ROWS[:10], do)

    here = await here_with(bench, app)
    report = await execute(here, "nightly")
    assert (report.processed, report.succeeded, report.failed, report.skipped) == (10, 7, 1, 2)
    assert await here.db.fetchval("select count(*) from effects") == 10
    [shown] = await history(here.db, "nightly")
    assert [(each["key"], each["message"]) for each in shown["errors"]] == [("6", "given up")]


async def test_a_batch_belongs_to_one_organization(bench: Any) -> None:
    app = Onceward("t")
    batches: list[tuple[UUID | None, int]] = []

    async def do(items: list[Any], tx: Tx) -> None:
        batches.append((tx.organization, len(items)))

    here = await here_with(bench, app)
    organizations = [
        await here.db.fetchval(
            "insert into onceward.organizations (slug, name) values ($1, $1) returning organization_id", slug
        )
        for slug in ("a", "b")
    ]

    async def rows() -> AsyncIterator[dict[str, Any]]:
        for organization in organizations:
            for n in range(5):
                yield {"id": f"{organization}:{n}", "organization_id": organization}

    @app.cron("0 2 * * *")
    async def nightly(run: Run) -> None:
        await run.each_batch(rows(), do, size=3)

    assert (await execute(here, "nightly")).succeeded == 10
    assert batches == [(organization, count) for organization in organizations for count in (3, 2)]


@pytest.mark.parametrize("at", ["item-before-commit", "item-after-commit"])
async def test_a_run_that_dies_between_batches_does_only_the_items_that_are_left(
    bench: Any, at: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = Onceward("t")
    passed = 0

    async def do(items: list[Any], tx: Tx) -> None:
        await insert(items, tx)

    @app.cron("0 2 * * *")
    async def nightly(run: Run) -> None:
        await run.each_batch(ROWS, do, size=10)

    def die(name: str) -> None:
        nonlocal passed
        passed += name == at
        if name == at and passed == 2:
            raise Crash(name)

    here = await here_with(bench, app)
    with monkeypatch.context() as patch:
        patch.setattr(gate, "hook", die)
        with pytest.raises(Crash):
            await execute(here, "nightly")
    assert await here.db.fetchval("select count(*) from effects") == (10 if at == "item-before-commit" else 20)
    await give_back(here.engine)
    from onceward.testing import drain

    await drain(here.engine)
    row = await here.db.fetchrow("select status, processed, succeeded from onceward.runs")
    assert tuple(row) == ("success", 40, 40)
    assert await here.db.fetchval("select count(*) from effects") == 40


async def test_when_everything_fails_the_run_fails(bench: Any) -> None:
    app = Onceward("t")
    calls = 0

    async def do(items: list[Any], tx: Tx) -> None:
        nonlocal calls
        calls += 1
        raise RuntimeError("the template is missing")

    @app.cron("0 2 * * *", retry=[])
    async def nightly(run: Run) -> None:
        await run.each_batch(({"id": n} for n in range(10_000)), do)

    report = await execute(await here_with(bench, app), "nightly")
    assert report.status == "failed"
    assert report.failed == MOST_FAILURES_IN_A_ROW
    assert calls < 3 * MOST_FAILURES_IN_A_ROW
