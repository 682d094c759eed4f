"""Whose work a claim takes: the round of organizations without a database, and then against one."""

from __future__ import annotations

import random
import re
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from uuid import UUID, uuid4

import pytest

import onceward
from onceward import Engine, Onceward
from onceward.db import Database
from onceward.work import controls
from onceward.work.claim import as_lines, claim, find_lines, new_lease, newest_lines
from onceward.work.lines import NOBODY, Lines
from onceward.work.round import BEGINNING, Found, Line, Round
from onceward.work.statements import CLAIM, FIND_LINES, NEWEST_LINES, WAITING_ORGANIZATIONS
from tests.work.test_plans import explain, nodes, pages, scans_of

ROOT = Path(onceward.__file__).parent
INSERT = re.compile(r"insert into onceward\.work(?: as w)?\s+\(([^)]*)\)")
NOW = datetime(2026, 1, 1, tzinfo=UTC)


def owner(number: int) -> UUID:
    return UUID(int=number)


class Backlog:
    """Lines with their numbers of rows, and claims of them as the statement does: in order, up to the room."""

    def __init__(self, rows: dict[int, int]) -> None:
        self.rows = rows
        self.served: list[int] = []

    def claim(self, round_: Round, room: int) -> list[int]:
        picks = round_.pick(room)
        found: dict[int, Found] = {}
        taken: list[int] = []
        for pick in picks:
            count = min(pick.take, self.rows.get(pick.line, 0), room - len(taken))
            if count:
                self.rows[pick.line] -= count
                found[pick.line] = Found(count, NOW)
                taken += [pick.line] * count
        round_.took(picks, found, room)
        self.served += taken
        return taken


def test_while_work_waits_each_organization_gets_its_weight() -> None:
    round_, backlog = Round(), Backlog({1: 10_000, 2: 10_000, 3: 10_000})
    round_.add([Line(1, owner(1)), Line(2, owner(2)), Line(3, owner(3), weight=3)])
    for _ in range(100):
        assert len(backlog.claim(round_, 10)) == 10
    shares = [backlog.served.count(line) / 1000 for line in (1, 2, 3)]
    assert shares == pytest.approx([0.2, 0.2, 0.6], abs=0.03)


def test_fair_keys_divide_the_turns_of_their_organization_only() -> None:
    round_, backlog = Round(), Backlog(dict.fromkeys(range(51), 1000))
    round_.add([Line(0, owner(1)), *(Line(n, owner(2)) for n in range(1, 51))])
    for _ in range(50):
        backlog.claim(round_, 20)
    assert backlog.served.count(0) == pytest.approx(500, abs=20)
    assert max(backlog.served.count(n) for n in range(1, 51)) - min(backlog.served.count(n) for n in range(1, 51)) <= 2


@pytest.mark.parametrize("room", [1, 7, 500])
def test_an_organization_that_comes_is_served_at_once_and_a_thousand_do_not_stop_a_flood(room: int) -> None:
    round_, backlog = Round(), Backlog({1: 10**6})
    round_.add([Line(1, owner(1))])
    backlog.claim(round_, room)
    backlog.rows[2] = 1
    round_.add([Line(2, owner(2))])
    assert 2 in backlog.claim(round_, room) + backlog.claim(round_, room)
    small = [Line(n, owner(n)) for n in range(10, 210)]
    backlog.served.clear()
    while (
        len(backlog.served) < 4020
    ):  # 20 rounds, in which each of 200 organizations has one row again as soon as it had its turn
        backlog.rows |= {each.line: 1 for each in small}
        round_.add(small)
        backlog.claim(round_, room)
    assert backlog.served.count(1) >= 19


def test_whatever_comes_a_round_serves_everything_and_ends() -> None:
    chance = random.Random(7)
    for _ in range(200):
        rows = {n: chance.randrange(1, 40) for n in range(chance.randrange(1, 30))}
        round_, backlog = Round(), Backlog(dict(rows))
        round_.add(Line(n, owner(n % 5), weight=1 + n % 5) for n in rows)
        claims = 0
        while round_:
            backlog.claim(round_, chance.choice([1, 3, 50]))
            claims += 1
        assert not any(backlog.rows.values())
        assert claims <= sum(rows.values()) + len(rows)


def test_claims_go_by_time_until_one_is_full() -> None:
    lines = Lines(poll_s=1.0, clock=lambda: 1.0)
    assert lines.look() is None
    plan = lines.plan(10)
    assert plan.oldest == BEGINNING
    lines.took(plan, 10, {5: Found(9, NOW)})
    assert lines.look() is None
    lines.took(lines.plan(10), 10, {5: Found(10, NOW)})
    assert lines.look() is True
    lines.looked([Line(5, owner(5)), Line(6, owner(6))], for_all=True, began=1.0)
    plan = lines.plan(10)
    assert [pick.line for pick in plan.picks] == [6], "line 5 is served by time"
    assert plan.oldest is None
    lines.took(plan, 10, {6: Found(3, NOW)})
    assert lines.plan(10).oldest == NOW
    lines.took(lines.plan(10), 10, {5: Found(3, NOW)})
    assert not lines.is_full


async def organizations(db: Database, count: int) -> list[UUID]:
    found = [uuid4() for _ in range(count)]
    await db.execute(
        "insert into onceward.organizations (organization_id, slug, name) select o, 'o-' || o, 'o' from unnest($1::uuid[]) o",
        found,
    )
    return found


async def take(db: Database, lines: Lines, room: int, *, look: bool = True) -> list[int]:
    """Claim as a worker does, and return the ids in the order in which they run."""
    async with db.acquire() as conn:
        if look and (for_all := lines.look()) is not None:
            rows = await (find_lines(conn, "default") if for_all else newest_lines(conn, "default", BEGINNING))
            lines.looked(as_lines(rows), for_all=for_all, began=0.0)
        plan = lines.plan(room)
        taken = await claim(
            conn, queue="default", tasks=["one"], most=room, lease=new_lease(), worker=1, plan=plan, suspect=True
        )
        lines.took(plan, room, taken.found)
        return [each.id for each in taken.work]


def shop() -> tuple[Onceward, object]:
    app = Onceward("shop")

    @app.job
    async def one(*, n: int) -> None: ...

    return app, one


async def test_a_flood_is_nobody_elses_wait_and_within_an_organization_the_order_is_by_time(db: Database) -> None:
    app, one = shop()
    engine = Engine(db, app.registry)
    a, b = await organizations(db, 2)
    flood = await engine.enqueue_many([one.for_organization(a).call(n=n) for n in range(300)])  # pyright: ignore
    clock = [10.0]
    lines = Lines(poll_s=1.0, clock=lambda: clock[0])
    first = await take(db, lines, 20)
    assert first == [each.id for each in flood[:20]]
    small = [await engine.enqueue(one.for_organization(b), n=n) for n in range(3)]  # pyright: ignore
    nobody = await engine.enqueue(one, n=0)  # pyright: ignore
    keyed = await engine.enqueue(one.for_organization(a).fair_by("x"), n=0)  # pyright: ignore
    urgent = await engine.enqueue(one.for_organization(a).head_start(60), n=0)  # pyright: ignore
    later = await engine.enqueue(one.for_organization(b).schedule_in(hours=1), n=0)  # pyright: ignore
    taken = await take(db, lines, 12)
    assert {each.id for each in small} <= set(taken)
    assert nobody.id in taken
    assert keyed.id in taken
    assert later.id not in taken
    assert urgent.id in taken, "a head start is one inside the organization"
    rest = taken
    while batch := await take(db, lines, 50):
        clock[0] += 0.05
        rest = rest + batch
    own = [each for each in first + rest if each in {each.id for each in flood}]
    assert own == [each.id for each in flood], "all of the flood, in its order"
    assert len(set(rest)) == len(rest)
    assert await db.fetchval("select count(*) from onceward.work where lease is null") == 1


async def test_a_retry_and_a_replayed_dead_letter_wait_for_their_own_organization_only(db: Database) -> None:
    app, one = shop()
    engine = Engine(db, app.registry)
    a, b = await organizations(db, 2)
    [dead] = await engine.enqueue_many([one.for_organization(b).call(n=0)])  # pyright: ignore
    await db.execute("update onceward.work set dead_reason = 'permanent', dead_at = now() where id = $1", dead.id)
    await engine.enqueue_many([one.for_organization(a).call(n=n) for n in range(100)])  # pyright: ignore
    lines = Lines(poll_s=1.0)
    await take(db, lines, 10)
    await db.fetchval("select onceward.replay($1)", dead.id)
    assert dead.id in await take(db, lines, 4)
    await db.execute(
        "update onceward.work set lease = null, attempts = 1, sort_at = onceward.now() where id = $1", dead.id
    )
    lines = Lines(poll_s=1.0)
    await take(db, lines, 10)
    assert dead.id in await take(db, lines, 4)


async def test_weights_come_with_the_look(db: Database) -> None:
    app, one = shop()
    engine = Engine(db, app.registry)
    a, b = await organizations(db, 2)
    await db.execute("update onceward.organizations set weight = 3 where organization_id = $1", b)
    of: dict[int, UUID] = {}
    for each in (a, b):
        for job in await engine.enqueue_many([one.for_organization(each).call(n=n) for n in range(200)]):  # pyright: ignore
            of[job.id] = each
    await engine.enqueue(one, n=0)  # pyright: ignore
    waiting = await controls.waiting(db, most=150)
    assert [(row["organization"], row["due"]) for row in waiting] == [(f"o-{a}", 150), (f"o-{b}", 150), (None, 1)]
    assert len(await controls.waiting(db, limit=2)) == 2
    await db.execute("delete from onceward.work where organization_id is null")
    lines = Lines(poll_s=1.0)
    await take(db, lines, 1)
    taken = [of[id_] for _ in range(10) for id_ in await take(db, lines, 12)]
    assert taken.count(b) == pytest.approx(90, abs=6)
    assert all(first != second or first == b for first, second in pairwise(taken[:8]))
    assert NOBODY not in {row["line"] for row in await db.fetch("select line from onceward.work")}


def test_every_statement_that_inserts_work_of_an_organization_says_in_which_line() -> None:
    texts = [path.read_text() for path in ROOT.rglob("*") if path.suffix in (".sql", ".py")]
    inserts = [found[1] for text in texts for found in INSERT.finditer(text) if "organization_id" in found[1]]
    assert len(inserts) >= 14
    assert [columns for columns in inserts if " line" not in columns] == []


@pytest.mark.parametrize("lines_", [1, 1000, 10_000])
async def test_a_claim_in_rounds_reads_what_it_takes_whatever_waits(db: Database, lines_: int) -> None:
    await db.execute(
        """
        insert into onceward.work (id, organization_id, line, kind, task, queue, sort_at)
        select n, o, onceward.line_of(o, null), 'job', 'one', 'default',
               now() + case when n % 2 = 0 then interval '1 hour' else - interval '1 minute' end
          from generate_series(1, 20000) n,
               lateral (select ('00000000-0000-4000-8000-' || lpad((n % $1)::text, 12, '0'))::uuid as o) owner
        """.replace("$1", str(lines_ + (1 - lines_ % 2)))
    )
    await db.execute(
        "insert into onceward.work (id, kind, task, queue, sort_at)"
        " select n, 'job', 'one', 'default', now() + interval '1 day' from generate_series(20001, 30000) n"
    )
    await db.execute("vacuum analyze onceward.work")
    async with db.acquire() as conn:
        found = await find_lines(conn, "default")
        assert len(found) >= lines_
        picked = [row["line"] for row in found[:200]]
        count = len(picked)
        plan = await explain(
            conn, CLAIM, "default", None, ["one"], 200, 7, 1, True, picked, [BEGINNING] * count, [200 // count] * count
        )
        for each in (
            plan,
            await explain(conn, FIND_LINES, "default"),
            await explain(conn, NEWEST_LINES, "default", BEGINNING, 500),
            await explain(conn, WAITING_ORGANIZATIONS, 10, 1),
        ):
            assert "Seq Scan" not in scans_of(each, "work")
            assert not any(node["Node Type"] == "Sort" and node["Actual Rows"] > 1000 for node in nodes(each))
        assert pages(plan) / 200 < 30, pages(plan)
        assert await conn.fetchval("select count(*) from onceward.work where lease = 7") == 200
