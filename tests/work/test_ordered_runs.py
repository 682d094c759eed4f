"""Several rows of one ordered lane are claimed together, run one after the other and share commits. The order always holds."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

import pytest

from onceward import Engine, Job, Onceward, Tx
from onceward.db import Database, Transaction, Unavailable
from onceward.testing import crash_test, until
from onceward.work import worker
from onceward.work.claim import claim_lanes, new_lease
from onceward.work.claimed import Claimed
from onceward.work.commit_sharing import Experience
from onceward.work.ready import Ready

STEPS = (
    "create table steps (lane text, n int, at bigint generated always as identity); grant all on steps to onceward_app"
)
ROWS = """
insert into onceward.jobs (id, task, args) select n, 'x', '{}' from generate_series(1, 20) n;
insert into onceward.work (id, kind, task, queue, sort_at, lane, cap, ordered)
select n, 'job', 'x', 'default', now() - interval '1 hour', 'a', 1, true from generate_series(1, 20) n
"""


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every task counts as quick from its first run on."""
    monkeypatch.setattr(Experience, "mean_s", property(lambda _self: 0.0, lambda _self, _value: None), raising=False)


async def taken(conn: Any, *, most: int = 8, together: tuple[str, ...] = ("x",)) -> list[tuple[int, int | None]]:
    claimed = await claim_lanes(
        conn,
        queue="default",
        tasks=["x", "y"],
        most=most,
        lease=new_lease(),
        worker=1,
        suspect=True,
        together=together,
    )
    return [(work.id, None if work.after is None else work.after.id) for work in claimed.work]


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ("select", 8),
        ("update onceward.work set task = 'y' where id = 4", 3),
        ("update onceward.work set attempts = 1 where id = 4", 3),
        ("update onceward.work set crashes = 1 where id = 4", 3),
        ("update onceward.work set unique_key = 'k' where id = 4", 3),
        ("update onceward.work set sort_at = now() + interval '1 hour' where id = 4", 3),
        ("update onceward.work set parent = 'p', parent_cap = 9 where id = 4", 3),
        ("update onceward.work set crashes = 1 where id = 1", 1),
        ("update onceward.work set unique_key = 'k' where id = 1", 1),
        ("insert into onceward.lanes (queue, lane, rate_per_s) values ('default', 'a', 9)", 1),
        ("insert into onceward.lanes (queue, lane, failures) values ('default', 'a', 2)", 1),
        ("update onceward.work set lease = 7, slot = 3 where id = 3", 1),  # its worker is about to give it back
    ],
)
async def test_a_run_ends_before_the_first_row_that_may_not_share(db: Database, change: str, expected: int) -> None:
    async with db.acquire() as conn:
        await conn.execute(f"{ROWS}; {change}")
        assert await taken(conn) == [(n, n - 1 or None) for n in range(1, expected + 1)]
        assert await taken(conn) == [], "the lane is held while one of its rows is"
        await conn.execute("delete from onceward.work where id = 1")
        assert await taken(conn) == [] or expected == 1


async def test_a_row_that_another_session_has_is_not_passed_by(db: Database) -> None:
    async with db.acquire() as conn, db.acquire() as other:
        await conn.execute(ROWS)
        async with other.transaction():
            await other.execute("select from onceward.work where id = 4 for update")
            assert await taken(conn) == [(1, None)]


async def test_a_claimer_that_loses_the_head_of_a_run_takes_none_of_it(db: Database) -> None:
    async with db.acquire() as conn:
        await conn.execute(ROWS)
        # What a race leaves: the slot is taken, and the claimer had not seen it when it chose its rows.
        await conn.execute("update onceward.work set lease = 7, slot = 1 where id = 1")
        held = await conn.fetchval("select onceward.hold_together('{2,3,4}', '{1,2,3}', 9)")
        assert held == []


async def is_idle(db: Database) -> bool:
    return not await db.fetchval("select exists (select from onceward.work where dead_reason is null)")


@pytest.mark.parametrize("fails", [None, 5])
async def test_rows_of_a_lane_share_commits_in_their_order_and_stop_at_a_failure(
    patient: None, measured: None, bench, fails: int | None
) -> None:
    app = Onceward("t")
    failed: list[str] = []

    @app.job(retry=[0.0] * 5)
    async def step(tx: Tx, *, lane: str, n: int) -> None:
        await tx.execute("insert into steps (lane, n) values ($1, $2)", lane, n)
        if n == fails and failed.count(lane) < 3:  # in its group, then alone, then as a retry
            failed.append(lane)
            raise RuntimeError("not yet")

    here = await bench(app)
    await here.db.execute(STEPS)
    lanes, each = 3, 12
    await here.engine.enqueue_many(
        [step.in_order(f"lane-{lane}").call(lane=f"lane-{lane}", n=n) for n in range(each) for lane in range(lanes)]
    )
    for _ in range(2):
        await here.start_worker()
    await until(lambda: is_idle(here.db), timeout_s=30)
    rows = await here.db.fetch("select lane, n from steps order by at")
    for lane in range(lanes):
        assert [row["n"] for row in rows if row["lane"] == f"lane-{lane}"] == list(range(each))
    shared = await here.db.fetchval("select max(shared) from onceward.attempts where outcome = 'success'")
    assert shared > 1, "rows of a lane share a commit"
    charged = await here.db.fetchval("select count(*) from onceward.attempts where outcome <> 'success'")
    assert (charged > 0) is (fails is not None)
    others = (
        "select count(*) from onceward.attempts a join onceward.jobs j on j.id = a.work_id where outcome <> 'success'"
    )
    assert await here.db.fetchval(f"{others} and (args ->> 'n')::int <> {fails or 0}") == 0, (
        "only the failing row is charged"
    )


async def test_a_crash_at_any_gate_of_a_run_of_a_lane_changes_neither_its_order_nor_its_effects(
    db: Database, thorough: bool
) -> None:
    app = Onceward("t")

    @app.job(retry=[0.0])
    async def step(job: Job, tx: Tx, *, n: int) -> None:
        await tx.execute("insert into steps (lane, n) values ('a', $1)", n)
        if n == 3 and job.attempt == 1:
            raise RuntimeError("not yet")

    await db.execute(STEPS)
    engine = Engine(db, app.registry)

    async def arrange() -> None:
        await engine.enqueue_many([step.in_order("a").call(n=n) for n in range(6)])

    async def observe() -> Any:
        steps = [row["n"] for row in await db.fetch("select n from steps order by at")]
        ended = "select count(*) from onceward.attempts where outcome = $1"
        return steps, [await db.fetchval(ended, outcome) for outcome in ("success", "dead_letter")]

    async def reset() -> None:
        await db.execute("truncate steps, onceward.jobs, onceward.work, onceward.attempts, onceward.claims")

    gates = await crash_test(engine, arrange=arrange, observe=observe, reset=reset, every=thorough)
    assert gates.count("after-join") >= 4, "rows of the lane share a transaction"
    assert await observe() == (list(range(6)), [6, 0])


@pytest.mark.parametrize("error", [Unavailable("no connection"), ConnectionError("broken"), RuntimeError("a bug")])
async def test_a_row_that_could_not_join_the_transaction_of_its_predecessor_runs_after_it(
    patient: None, measured: None, bench, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    app = Onceward("t")

    @app.job(retry=[0.0] * 5)
    async def step(tx: Tx, *, n: int) -> None:
        await tx.execute("insert into steps (lane, n) values ('a', $1)", n)

    follow, joins = Transaction.follow, 0

    def breaks_at_the_third(self: Transaction, other: Transaction) -> None:
        nonlocal joins
        joins += 1
        if joins == 3:
            raise error
        follow(self, other)

    monkeypatch.setattr(Transaction, "follow", breaks_at_the_third)
    here = await bench(app)
    await here.db.execute(STEPS)
    await here.engine.enqueue_many([step.in_order("a").call(n=n) for n in range(12)])
    await here.start_worker()
    await until(lambda: is_idle(here.db), timeout_s=10)
    assert joins > 3
    assert [row["n"] for row in await here.db.fetch("select n from steps order by at")] == list(range(12))


async def test_work_that_a_live_worker_mislaid_runs_again(
    patient: None, bench, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What no slot has, although the process is alive and knows its lease, is found and made pending again."""
    app, ran = Onceward("t"), list[int]()

    @app.job
    async def step(*, n: int) -> None:
        ran.append(n)

    extend, lost = Ready.extend, list[Claimed]()

    def loses_one(self: Ready, works: Iterable[Claimed]) -> None:
        works = list(works)
        if works and not lost:
            lost.append(works.pop())
        extend(self, works)

    monkeypatch.setattr(Ready, "extend", loses_one)
    monkeypatch.setattr(worker, "MISLAID_TURNS", 1)
    here = await bench(app)
    await here.engine.enqueue_many([step.call(n=n) for n in range(5)])
    await here.start_worker()
    await until(lambda: is_idle(here.db), timeout_s=10)
    assert lost
    assert sorted(ran) == list(range(5))
    assert "work.mislaid" in "".join(capsys.readouterr())


async def test_a_capped_lane_keeps_its_cap_when_its_rows_share(patient: None, measured: None, bench) -> None:
    app = Onceward("t")
    running = most = 0

    @app.job
    async def step(tx: Tx, *, n: int) -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0)
        await tx.execute("insert into steps (lane, n) values ('api', $1)", n)
        running -= 1

    here = await bench(app)
    await here.db.execute(STEPS)
    await here.engine.enqueue_many([step.in_lane("api", limit=2).call(n=n) for n in range(40)])
    for _ in range(2):
        await here.start_worker()
    await until(lambda: is_idle(here.db), timeout_s=30)
    assert most <= 2
    assert await here.db.fetchval("select count(*) = 40 and count(distinct n) = 40 from steps")


async def test_a_worker_that_stops_gives_back_the_rows_that_wait_in_a_lane(
    patient: None, measured: None, bench
) -> None:
    app = Onceward("t")
    began = asyncio.Event()
    goes_on = asyncio.Event()

    @app.job
    async def step(tx: Tx, *, n: int) -> None:
        if n == 3:
            began.set()
            await goes_on.wait()

    here = await bench(app)
    await here.db.execute(STEPS)
    await here.engine.enqueue_many([step.in_order("a").call(n=n) for n in range(10)])
    worker = await here.start_worker()
    await began.wait()
    stopping = asyncio.create_task(worker.stop())
    await asyncio.sleep(0)
    goes_on.set()
    await stopping
    assert await here.db.fetchval("select count(*) from onceward.work where lease is not null or slot is not null") == 0
    assert await here.db.fetchval("select count(*) from onceward.work where attempts > 0 or crashes > 0") == 0
