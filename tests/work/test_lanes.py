"""Lanes: order, exact concurrency, fairness, pause, rate and breaker, none of which holds up anything else."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from onceward import Job, Onceward, Tx
from onceward.db import Connection, Database
from onceward.work.claim import claim_lanes, new_lease
from onceward.work.lane_turns import Lane, LanePlan


class Gauge:
    """How many run at once, per key, and the most there ever were."""

    def __init__(self) -> None:
        self.now: dict[str, int] = {}
        self.most: dict[str, int] = {}
        self.order: list[Any] = []

    async def hold(self, key: str, item: Any, seconds: float = 0.01) -> None:
        self.now[key] = self.now.get(key, 0) + 1
        self.most[key] = max(self.most.get(key, 0), self.now[key])
        self.order.append(item)
        await asyncio.sleep(seconds)
        self.now[key] -= 1


async def finished(db: Database, count: int, timeout_s: float = 20) -> None:
    async with asyncio.timeout(timeout_s):
        while await db.fetchval("select count(*) from onceward.attempts where outcome = 'success'") < count:
            await asyncio.sleep(0.02)


async def test_an_ordered_lane_runs_one_at_a_time_in_order_while_others_go_on(bench) -> None:
    app = Onceward("t")
    gauge = Gauge()

    @app.job
    async def step(*, key: str, n: int) -> None:
        await gauge.hold(key, (key, n), 0.002)

    here = await bench(app)
    for n in range(20):
        for key in ("a", "b"):
            await here.engine.enqueue(step.in_order(key), key=key, n=n)
    await here.start_worker()
    await here.start_worker()
    await finished(here.db, 40)
    assert gauge.most == {"a": 1, "b": 1}
    for key in ("a", "b"):
        assert [n for k, n in gauge.order if k == key] == list(range(20))


async def test_a_waiting_head_blocks_its_ordered_lane_and_no_other(bench) -> None:
    app = Onceward("t")
    ran: list[tuple[str, int]] = []

    @app.job(retry=[0.4])
    async def step(job: Job, *, key: str, n: int) -> None:
        if (key, n, job.attempt) == ("a", 0, 1):
            raise RuntimeError("first of lane a fails once")
        ran.append((key, n))

    here = await bench(app)
    for key in ("a", "b"):
        for n in range(3):
            await here.engine.enqueue(step.in_order(key), key=key, n=n)
    await here.start_worker()
    await finished(here.db, 6)
    assert [n for key, n in ran if key == "a"] == [0, 1, 2]
    assert ran.index(("b", 2)) < ran.index(("a", 0))


@pytest.mark.parametrize("cap", [1, 3])
async def test_no_more_than_the_cap_of_a_key_run_at_once_over_several_workers(bench, cap: int) -> None:
    app = Onceward("t")
    gauge = Gauge()

    @app.job
    async def call(*, key: str) -> None:
        await gauge.hold(key, key, 0.003)

    here = await bench(app)
    for _ in range(60):
        await here.engine.enqueue(call.in_lane("api", limit=cap), key="api")
    for _ in range(3):
        await here.start_worker()
    await finished(here.db, 60)
    assert gauge.most["api"] <= cap
    assert gauge.most["api"] == cap, "the lane must be used up to its cap, too"


async def test_a_parent_limits_several_lanes_together(bench) -> None:
    app = Onceward("t")
    gauge = Gauge()

    @app.job
    async def render(*, user: int) -> None:
        await gauge.hold("all", user, 0.005)

    here = await bench(app)
    for n in range(40):
        order = render.in_lane(f"user:{n % 8}", limit=2, parent="all", parent_limit=3)
        await here.engine.enqueue(order, user=n % 8)
    for _ in range(2):
        await here.start_worker()
    await finished(here.db, 40)
    assert gauge.most["all"] == 3


async def test_twenty_thousand_rows_of_a_blocked_lane_do_not_delay_a_free_one(db: Database) -> None:
    await db.execute(
        """
        insert into onceward.jobs (id, task, args) select n, 'x', '{}' from generate_series(1, 20000) n;
        insert into onceward.work (id, kind, task, queue, sort_at, lane, cap, ordered)
        select n, 'job', 'x', 'default', now() - interval '1 hour', 'a', 1, true from generate_series(1, 20000) n;
        update onceward.work set lease = 7, slot = 1 where id = 1;
        insert into onceward.jobs (id, task, args) values (20001, 'x', '{}');
        insert into onceward.work (id, kind, task, queue, sort_at, lane, cap, ordered)
        values (20001, 'job', 'x', 'default', now() - interval '1 hour', 'b', 1, true);
        analyze onceward.work
        """
    )
    async with db.acquire() as conn:
        taken = await claim_lanes(
            conn, queue="default", tasks=["x"], most=10, lease=new_lease(), worker=1, suspect=True
        )
        assert [work.id for work in taken.work] == [20001]
        assert taken.turns.visited == 2, "one probe passes over the blocked lane"


async def test_a_paused_lane_waits_and_goes_on_when_resumed(bench) -> None:
    app = Onceward("t")

    @app.job
    async def call() -> None: ...

    here = await bench(app)
    await here.db.execute("insert into onceward.lanes (queue, lane, paused_at) values ('default', 'api', now())")
    await here.engine.enqueue(call.in_lane("api"))
    await here.engine.enqueue(call.in_lane("other"))
    await here.start_worker()
    await finished(here.db, 1)
    assert await here.db.fetchval("select lane from onceward.work") == "api"
    await here.db.execute("update onceward.lanes set paused_at = null")
    await finished(here.db, 2)


async def test_a_lane_with_a_rate_starts_no_faster(bench) -> None:
    app = Onceward("t")
    starts: list[float] = []

    @app.job
    async def call() -> None:
        starts.append(time.monotonic())

    here = await bench(app)
    await here.db.execute("insert into onceward.lanes (queue, lane, rate_per_s) values ('default', 'api', 50)")
    for _ in range(10):
        await here.engine.enqueue(call.in_lane("api"))
    await here.start_worker(poll_s=0.005)
    await here.start_worker(poll_s=0.005)
    await finished(here.db, 10)
    assert starts[-1] - starts[0] >= 9 * 0.02 * 0.9


async def test_lanes_take_turns_so_that_a_flood_of_one_does_not_starve_another(bench) -> None:
    app = Onceward("t")
    ran: list[str] = []

    @app.job
    async def work(tx: Tx, *, org: str) -> None:
        ran.append(org)

    here = await bench(app)
    for _ in range(200):
        await here.engine.enqueue(work.in_lane("big"), org="big")
    for _ in range(5):
        await here.engine.enqueue(work.in_lane("small"), org="small")
    await here.start_worker(concurrency=2)
    await finished(here.db, 205)
    assert max(n for n, org in enumerate(ran) if org == "small") < 60


async def test_rows_of_a_lane_that_are_not_due_do_not_stand_before_those_that_are(db: Database) -> None:
    await db.execute(
        """
        insert into onceward.work (id, kind, task, queue, sort_at, lane, cap)
        select n, 'job', 'x', 'default', now() + interval '1 hour', 'a', 10 from generate_series(1, 20000) n;
        insert into onceward.jobs (id, task, args) values (20001, 'x', '{}');
        insert into onceward.work (id, kind, task, queue, sort_at, lane, cap)
        values (20001, 'job', 'x', 'default', now() - interval '1 hour', 'a', 10);
        analyze onceward.work
        """
    )
    async with db.acquire() as conn:
        for expected in ([20001], []):
            began = time.monotonic()
            taken = await claim_lanes(
                conn, queue="default", tasks=["x"], most=10, lease=new_lease(), worker=1, suspect=True
            )
            assert [work.id for work in taken.work] == expected
            assert time.monotonic() - began < 0.5
        assert taken.resume_s is not None
        assert 3500 < taken.resume_s <= 3600


@pytest.mark.parametrize("how", ["in order", "capped"])
async def test_a_full_lane_goes_on_when_a_place_is_free_not_at_the_next_poll(bench, how: str) -> None:
    app = Onceward("t")

    @app.job
    async def step(*, n: int) -> None:
        await asyncio.sleep(0)

    here = await bench(app)
    placed = step.in_order("a") if how == "in order" else step.in_lane("a", limit=2)
    for n in range(20):
        await here.engine.enqueue(placed, n=n)
    await here.start_worker(poll_s=60.0)
    await finished(here.db, 20, timeout_s=30)


async def test_a_claimer_that_loses_the_race_for_places_takes_those_that_are_left(db: Database) -> None:
    await db.execute(
        """
        insert into onceward.jobs (id, task, args) select n, 'x', '{}' from generate_series(1, 20) n;
        insert into onceward.work (id, kind, task, queue, sort_at, lane, cap)
        select n, 'job', 'x', 'default', now() - interval '1 hour', 'a', 6 from generate_series(1, 20) n
        """
    )
    common: dict[str, Any] = {"queue": "default", "tasks": ["x"], "worker": 1, "suspect": True}
    async with db.acquire() as first, db.acquire() as second:
        async with first.transaction():
            taken = await claim_lanes(first, most=4, lease=new_lease(), **common)
            assert len(taken.work) == 4
            racing = asyncio.create_task(claim_lanes(second, most=20, lease=new_lease(), **common))
            waiting = "select count(*) from pg_stat_activity where wait_event_type = 'Lock' and pid = $1"
            async with asyncio.timeout(20):
                while not racing.done() and not await db.fetchval(waiting, second.get_server_pid()):
                    await asyncio.sleep(0.01)
        left = await racing
    assert len(left.work) == 2
    held = await db.fetch("select slot from onceward.work where lease is not null order by slot")
    assert [row["slot"] for row in held] == [1, 2, 3, 4, 5, 6]


async def test_a_tripped_lane_tries_with_one_only(db: Database) -> None:
    await db.execute(
        """
        insert into onceward.jobs (id, task, args) select n, 'x', '{}' from generate_series(1, 10) n;
        insert into onceward.work (id, kind, task, queue, sort_at, lane, cap)
        select n, 'job', 'x', 'default', now() - interval '1 hour', 'a', 10 from generate_series(1, 10) n;
        insert into onceward.lanes (queue, lane, failures, open_until)
        values ('default', 'a', 5, clock_timestamp() - interval '1 second')
        """
    )
    async with db.acquire() as conn:
        sizes = []
        for _ in range(3):
            taken = await claim_lanes(
                conn, queue="default", tasks=["x"], most=10, lease=new_lease(), worker=1, suspect=True
            )
            sizes.append(len(taken.work))
        assert sizes == [1, 0, 0]


async def test_a_rate_is_reached_though_polls_are_far_apart(bench) -> None:
    app = Onceward("t")

    @app.job
    async def call() -> None: ...

    here = await bench(app)
    await here.db.execute("insert into onceward.lanes (queue, lane, rate_per_s) values ('default', 'api', 50)")
    for _ in range(10):
        await here.engine.enqueue(call.in_lane("api"))
    await here.start_worker(poll_s=30)
    await finished(here.db, 10, timeout_s=10)


async def test_two_claimers_that_come_from_different_lanes_do_not_wait_for_each_other_for_ever(db: Database) -> None:
    """Each holds the only place of a lane in an open transaction and wants the other's, as two claims in flight do."""
    await db.execute("select onceward.enqueue('t', '{}', lane => l, cap => 1) from unnest(array['a', 'a', 'b', 'b']) l")
    one, other = await db.connect(), await db.connect()

    async def take(conn: Connection, after: str) -> list[str | None]:
        plan = LanePlan(at=Lane(0, after))
        claimed = await claim_lanes(
            conn, queue="default", tasks=["t"], most=1, lease=new_lease(), worker=1, suspect=False, plan=plan
        )
        return [each.lane for each in claimed.work]

    try:
        await one.execute("begin")
        await other.execute("begin")
        assert await take(one, "") == ["a"]
        assert await take(other, "a") == ["b"]
        # Without the limit on waiting, one of these two is a deadlock's victim after a second.
        assert await asyncio.gather(take(one, "a"), take(other, "")) == [[], []]
        await one.execute("commit")
        await other.execute("commit")
    finally:
        await one.close()
        await other.close()
    held = await db.fetch(
        "select lane, count(*) from onceward.work where lease is not null group by lane order by lane"
    )
    assert [tuple(row) for row in held] == [("a", 1), ("b", 1)]


async def test_claims_of_many_lanes_from_both_ends_at_once_meet_no_deadlock(db: Database) -> None:
    await db.execute(
        "select onceward.enqueue('t', '{}', lane => to_char(n, 'FM000'), cap => 1)"
        " from generate_series(1, 60) n, generate_series(1, 4)"
    )
    conns = [await db.connect() for _ in range(3)]

    async def take(conn: Connection, mark: str) -> int:
        plan = LanePlan(fair=True, at=Lane(0, mark), left=60)  # begins in the middle and ends before it
        claimed = await claim_lanes(
            conn, queue="default", tasks=["t"], most=60, lease=new_lease(), worker=1, suspect=False, plan=plan
        )
        return len(claimed.work)

    try:
        for _ in range(25):
            taken = await asyncio.gather(*(take(conn, at) for conn, at in zip(conns, ("", "020", "040"), strict=True)))
            assert 1 <= sum(taken) <= 60
            await db.execute("update onceward.work set lease = null, claimed_at = null, slot = null")
    finally:
        for conn in conns:
            await conn.close()
