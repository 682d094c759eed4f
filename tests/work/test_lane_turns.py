"""Lanes of several organizations: each one gets its share, whatever others have. Order and numbers are compared, never time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest

from onceward import Job, Onceward
from onceward.db import Connection, Database
from onceward.testing import until
from onceward.work.claim import claim_lanes, new_lease
from onceward.work.lane_turns import MOST_LANES, START, Lane, LanePlan, LanesTaken, LaneTurns, owner_of
from onceward.work.statements import CLAIM_LANES
from tests.work.test_plans import explain, nodes, pages

A, B, C = UUID(int=1), UUID(int=2), UUID(int=3)
FILL = """
insert into onceward.work (id, organization_id, line, kind, task, queue, sort_at, lane, cap, ordered)
select nextval('onceward.ids'), $1, onceward.line_of($1, $6), 'job', 'x', 'default', now() - interval '1 minute',
       coalesce($5, $2 || n % $3), case when $7 then 1 else $8::int end, $7
  from generate_series(1, $4) n
"""


async def fill(
    db: Database,
    owner: UUID | None,
    prefix: str,
    *,
    lanes: int = 1,
    rows: int = 1,
    lane: str | None = None,
    key: str | None = None,
    ordered: bool = False,
    cap: int | None = None,
) -> None:
    await db.execute(FILL, owner, prefix, lanes, rows, lane, key, ordered, cap)


async def take(conn: Connection, turns: LaneTurns, most: int) -> list[UUID | None]:
    """Claim as a worker does, and return the organizations of the work in the order in which it starts."""
    plan = turns.plan()
    taken = await claim_lanes(
        conn, queue="default", tasks=["x"], most=most, lease=new_lease(), worker=1, suspect=True, plan=plan
    )
    turns.took(plan, taken.turns)
    ids = [each.id for each in taken.work]
    assert len(set(ids)) == len(ids)
    return [each.organization for each in taken.work]


async def ended(db: Database) -> None:
    """Everything that was claimed has ended: its slots are free."""
    await db.execute("delete from onceward.work where lease is not null")


@pytest.mark.parametrize("ordered", [False, True])
@pytest.mark.parametrize("most", [1, 8, 200])
async def test_the_lanes_of_a_flood_are_nobody_elses_wait(db: Database, most: int, ordered: bool) -> None:
    turns = LaneTurns()
    await fill(db, A, "a", lanes=300, rows=900, ordered=ordered)
    async with db.acquire() as conn:
        assert set(await take(conn, turns, most)) == {A}
        await fill(db, B, "zz", lanes=2, rows=2, ordered=ordered)
        await fill(db, None, "zzz", ordered=ordered)
        served: list[UUID | None] = []
        for _ in range(6):
            await ended(db)
            served += await take(conn, turns, most)
        assert served.count(B) == 2
        assert served.count(None) == 1
        last = max(n for n, each in enumerate(served) if each != A)
        assert last <= (8 if most <= 8 else 48), "each had its turn: at most one turn of A between"
        unfair = LaneTurns(fair=False)
        await fill(db, A, "a", lanes=300, rows=300, ordered=ordered)
        await fill(db, C, "zzz", ordered=ordered)
        await db.execute("update onceward.work set line = 9223372036854775806 where organization_id = $1", C)
        assert C not in [each for _ in range(4) for each in await take(conn, unfair, min(most, 50))]


async def test_everything_is_served_and_weights_hold(db: Database) -> None:
    await db.execute(
        "insert into onceward.organizations (organization_id, slug, name, weight) values ($1, 'a', 'a', 3)", A
    )
    await fill(db, A, "a", lanes=40, rows=400)
    await fill(db, B, "b", lanes=1, rows=300)
    for most in (1, 5, 64):
        turns = LaneTurns()
        async with db.acquire() as conn:
            await conn.execute("begin")
            served = [each for _ in range(192 // most) for each in await take(conn, turns, most)]
            await conn.execute("rollback")
        assert served.count(A) / served.count(B) == pytest.approx(3, rel=0.35), most
    turns = LaneTurns()
    async with db.acquire() as conn:
        while await take(conn, turns, 60):
            pass
    assert await db.fetchval("select count(*) from onceward.work where lease is null") == 0


async def test_a_thousand_small_owners_do_not_stop_a_flood(db: Database) -> None:
    await fill(db, A, "a", lanes=50, rows=2000)
    await db.execute(
        """
        insert into onceward.work (id, organization_id, line, kind, task, queue, sort_at, lane)
        select nextval('onceward.ids'), o, onceward.line_of(o, null), 'job', 'x', 'default', now() - interval '1 minute', 'l' || k
          from (select ('00000000-0000-4000-8000-' || lpad(n::text, 12, '0'))::uuid as o from generate_series(1, 1000) n) s,
               generate_series(1, 3) k
        """
    )
    turns = LaneTurns()
    served: list[UUID | None] = []
    async with db.acquire() as conn:
        for _ in range(10):
            served += await take(conn, turns, 300)
        assert served.count(A) >= 16, "A has its turn in every round"
        while len(served) < 5000 and (more := await take(conn, turns, 300)):
            served += more
    assert len(served) == 5000
    assert served.count(A) == 2000


async def test_owners_of_one_capped_lane_get_its_slots_in_turn(db: Database) -> None:
    """Another owner with lanes of its own is always served last, so the next claim begins with A again."""
    first, second, third = sorted((A, B, C), key=lambda each: each.int)
    lines = {n: await db.fetchval("select onceward.line_of($1, null)", n) for n in (first, second, third)}
    a, b, c = sorted(lines, key=lambda each: lines[each])
    for owner in (a, b):
        await fill(db, owner, "", lane="api", rows=40, cap=1)
    await fill(db, c, "own", lanes=100, rows=400)
    turns = LaneTurns()
    served: list[UUID | None] = []
    async with db.acquire() as conn:
        for _ in range(12):
            served += [each for each in await take(conn, turns, 20) if each != c]
            await ended(db)
    assert served.count(a) == 6
    assert served.count(b) == 6


async def test_owners_below_one_parent_get_its_slots_in_turn(db: Database) -> None:
    for owner, prefix in ((A, "a"), (B, "b"), (C, "c")):
        await fill(db, owner, prefix, lanes=5, rows=50)
    await db.execute("update onceward.work set parent = 'all', parent_cap = 2 where organization_id <> $1", C)
    turns = LaneTurns()
    served: list[UUID | None] = []
    async with db.acquire() as conn:
        for _ in range(10):
            served += [each for each in await take(conn, turns, 9) if each != C]
            await ended(db)
    assert len(served) == 20
    assert abs(served.count(A) - served.count(B)) <= 4


async def test_an_ordered_lane_of_two_organizations_keeps_its_order(db: Database) -> None:
    await fill(db, A, "", lane="one", rows=2, ordered=True)
    await fill(db, B, "", lane="one", rows=1, ordered=True)
    await fill(db, A, "", lane="one", rows=1, ordered=True)
    turns = LaneTurns()
    served: list[UUID | None] = []
    async with db.acquire() as conn:
        for _ in range(12):
            served += await take(conn, turns, 10)
            await ended(db)
    assert served == [A, A, B, A]


async def test_fair_keys_without_an_organization_take_turns(db: Database) -> None:
    await fill(db, None, "a", lanes=100, rows=300, key="flood")
    await fill(db, None, "z", lanes=1, rows=1, key="small")
    lines = [row["line"] for row in await db.fetch("select distinct line from onceward.work")]
    assert len({owner_of(line) for line in lines}) == 2
    assert {await db.fetchval("select onceward.owner_of($1)", line) for line in lines} == {owner_of(n) for n in lines}
    turns = LaneTurns()
    async with db.acquire() as conn:
        for _ in range(2):
            await take(conn, turns, 20)
    assert await db.fetchval("select lease is not null from onceward.work where lane = 'z0'")


async def test_lines_of_an_organization_have_one_owner(db: Database) -> None:
    row = await db.fetchrow(
        "select onceward.line_of($1, null), onceward.line_of($1, 'k'), onceward.line_of($2, 'k')", A, B
    )
    assert row is not None
    a, key, b = row
    assert owner_of(a) == owner_of(key) == a != key
    assert owner_of(b) != a
    assert await db.fetchval("select onceward.owner_of($1)", key) == a
    ends = await db.fetch(
        "select line, onceward.end_of_owner(onceward.owner_of(line)) as ends from unnest($1::int8[]) line",
        [a, key, b, 0, 5],
    )
    assert all(row["line"] < row["ends"] for row in ends)


async def test_blocked_lanes_are_passed_and_what_is_behind_them_is_found(db: Database) -> None:
    await fill(db, A, "a", lanes=1200, rows=1200)
    await db.execute("update onceward.work set sort_at = now() + interval '1 hour'")
    await fill(db, A, "zz")
    turns = LaneTurns()
    claims = 0
    async with db.acquire() as conn:
        while not await take(conn, turns, 10):
            claims += 1
            assert claims < 10
        await ended(db)
        goes_on, claims = True, 0
        while goes_on:
            plan = turns.plan()
            taken = await claim_lanes(
                conn, queue="default", tasks=["x"], most=9, lease=new_lease(), worker=1, suspect=True, plan=plan
            )
            goes_on = turns.took(plan, taken.turns)
            claims += 1
            assert claims < 10, "when every lane was visited, the claims rest"


def test_a_sweep_ends_when_all_lanes_were_visited() -> None:
    turns = LaneTurns()
    nothing = LanesTaken(0, MOST_LANES, Lane(7, "x"), 0, (), ())
    assert turns.took(turns.plan(), nothing)
    plan = turns.plan()
    assert (plan.fair, plan.at) == (False, START)
    assert turns.took(plan, nothing)
    assert turns.plan().at == Lane(7, "x")
    assert not turns.took(turns.plan(), nothing._replace(visited=3))
    assert turns.plan().fair
    assert not turns.took(turns.plan(), nothing._replace(visited=3)), "nothing to visit again"


def test_marks_of_many_owners_are_those_that_a_claim_meets_next() -> None:
    turns = LaneTurns()
    marks = [Lane(n << 24, "m") for n in range(1, 2001)]
    turns.took(LanePlan(True), LanesTaken(1, 9, Lane(1500 << 24, "m"), 0, marks, ()))
    plan = turns.plan()
    assert len(plan.marks) == MOST_LANES
    assert {each.line >> 24 for each in plan.marks} == set(range(1500, 2000))


async def test_a_claim_of_lanes_reads_what_it_visits_whatever_waits(db: Database) -> None:
    await fill(db, A, "a", lanes=5000, rows=20_000)
    await fill(db, B, "b", lanes=3, rows=3)
    await db.execute("vacuum analyze onceward.work")
    async with db.acquire() as conn:
        walk = await explain(
            conn,
            "select w.line, w.lane from onceward.work w where w.queue = $1 and (w.line, w.lane) > ($2, $3) and w.lane is not null"
            " and w.lease is null and w.dead_reason is null order by w.line, w.lane, w.sort_at, w.id limit 1",
            "default",
            0,
            "",
        )
        assert pages(walk) < 10
        assert {node.get("Index Name") for node in nodes(walk)} & {"work_lane_line"}
        plan = await explain(
            conn, CLAIM_LANES.text, "default", ["x"], 40, 7, 1, True, [], True, 0, "", 0, [], [], [], []
        )
        assert pages(plan) < 40 * 60, pages(plan)
    assert await db.fetchval("select count(*) from onceward.work where lease = 7 and organization_id = $1", B) == 3


@pytest.mark.parametrize("fair", [True, False])
async def test_a_flood_of_lanes_does_not_delay_another_organization(
    bench: Callable[[Onceward], Any], fair: bool
) -> None:
    app = Onceward("neighbours")
    order: list[UUID | None] = []
    begun, goes_on = asyncio.Event(), asyncio.Event()

    @app.job(outside=True)
    async def one(job: Job) -> None:
        order.append(job.organization)
        begun.set()
        await goes_on.wait()

    here = await bench(app)
    small = max((A, B), key=await _lines(here.db))
    flooding = A if small == B else B
    await here.engine.enqueue_many([one.for_organization(flooding).in_order(f"o{n}").call() for n in range(150)])
    await here.start_worker(concurrency=2, fair=fair)
    await begun.wait()
    for _ in range(2):
        await here.engine.enqueue(one.for_organization(small).in_order("mine"))
    goes_on.set()
    await until(lambda: here.db.fetchval("select not exists (select from onceward.work)"))
    last = max(index for index, each in enumerate(order) if each == small)
    assert len(order) == 152
    assert (last < 75) == fair, "without turns the small one comes after the flood"


async def _lines(db: Database) -> Callable[[UUID], int]:
    lines = {each: await db.fetchval("select onceward.line_of($1, null)", each) for each in (A, B)}
    return lines.__getitem__
