"""Work outside lanes, work in lanes and suspects share every turn: none of them waits until another has ended."""

from __future__ import annotations

import asyncio

from onceward import Job, Onceward
from onceward.testing import until
from onceward.work import controls
from onceward.work.shares import Shares


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def taken(shares: Shares, room: int, plain: int, lanes: int, freed: int = 0) -> list[tuple[str, int]]:
    """One turn of a queue in which so much of each kind is due: what each claim asked for."""
    asked: list[tuple[str, int]] = []
    for is_lanes in shares.turn():
        share = shares.of(room, is_lanes=is_lanes, freed=freed)
        if share == 0:
            continue
        asked.append(("lanes" if is_lanes else "plain", share))
        if is_lanes:
            got = max(0, min(share, lanes))
            if got:
                shares.found_in_lanes(plain=plain > 0)
            else:
                shares.found_no_lane(1.0 if lanes < 0 else None, freed=freed, plain=plain > 0)
        else:
            got = min(share, plain)
            shares.found_plain(got, lanes=lanes != 0 if got else None)
        room -= got
    return asked


def test_a_queue_of_one_kind_makes_one_claim_a_turn() -> None:
    shares = Shares()
    assert [taken(shares, 10, 100, 0) for _ in range(3)] == [[("plain", 10)]] * 3
    lanes_only = Shares()
    assert taken(lanes_only, 10, 0, 100) == [("plain", 10), ("lanes", 10)]
    lanes_only.expect_all()
    assert [taken(lanes_only, 10, 0, 100) for _ in range(3)] == [[("lanes", 10)]] * 3


def test_both_kinds_share_the_room_and_a_room_of_one_alternates() -> None:
    shares = Shares()
    taken(shares, 10, 100, 100)
    assert taken(shares, 10, 100, 100) == [("lanes", 5), ("plain", 5)]
    assert taken(shares, 10, 100, 100) == [("plain", 5), ("lanes", 5)]
    assert [taken(shares, 1, 100, 100) for _ in range(4)] == [[("lanes", 1)], [("plain", 1)]] * 2
    assert taken(shares, 10, 2, 100) == [("lanes", 5), ("plain", 5)]
    assert taken(shares, 10, 0, 3) == [("plain", 5), ("lanes", 10)]


def test_lanes_that_may_not_run_are_left_alone_until_one_ends_or_their_time_has_come() -> None:
    clock = Clock()
    shares = Shares(clock)
    assert taken(shares, 10, 2, -1) == [("plain", 10), ("lanes", 8)]
    assert taken(shares, 10, 2, -1) == [("plain", 10)]
    assert taken(shares, 10, 2, -1, freed=1) == [("plain", 5), ("lanes", 8)]
    assert taken(shares, 10, 2, -1, freed=1) == [("plain", 10)]
    clock.now += 1.5
    assert taken(shares, 10, 2, -1, freed=1) == [("plain", 5), ("lanes", 8)]


async def test_neither_kind_nor_a_suspect_waits_for_the_end_of_the_other(bench) -> None:
    app = Onceward("t")
    ran: list[str] = []

    @app.job
    async def step(job: Job, *, name: str) -> None:
        ran.append(name)

    here = await bench(app)
    await here.engine.enqueue_many([step.call(name="plain") for _ in range(600)])
    await here.engine.enqueue_many([step.in_lane(f"k{n % 50}").call(name="lane") for n in range(600)])
    await here.engine.enqueue_many([step.call(name="suspect")])
    await here.db.execute(
        "update onceward.work set crashes = 2 where id = (select max(id) from onceward.work where lane is null)"
    )
    await here.start_worker(concurrency=4)
    await until(lambda: len(ran) == 1201)
    assert ran.index("suspect") < 200
    assert ran.index("lane") < 200
    assert ran[:400].count("lane") > 100
    assert ran[:400].count("plain") > 100


async def test_a_job_that_becomes_due_runs_while_lanes_are_busy(bench) -> None:
    app = Onceward("t")
    ran: list[str] = []

    @app.job
    async def step(*, name: str) -> None:
        ran.append(name)
        await asyncio.sleep(0.002)

    here = await bench(app)
    await here.engine.enqueue_many([step.in_lane(f"k{n % 7}").call(name="lane") for n in range(1500)])
    await here.engine.enqueue(step.schedule_in(seconds=0.3), name="soon")
    await here.start_worker(concurrency=4, poll_s=30.0)
    await until(lambda: len(ran) == 1501)
    assert ran.index("soon") < 1400


async def test_a_paused_queue_runs_nothing_in_lanes_either(bench) -> None:
    app = Onceward("t")
    ran: list[str] = []

    @app.job
    async def step(*, name: str) -> None:
        ran.append(name)

    here = await bench(app)
    await controls.pause(here.db, "default", actor="anna")
    for job in (step, step.in_order("a"), step.in_lane("b", limit=2)):
        await here.engine.enqueue(job, name=job.options.lane or "plain")
    await here.start_worker(poll_s=0.05)
    await asyncio.sleep(0.3)
    assert ran == []
    await controls.resume(here.db, "default", actor="anna")
    await until(lambda: sorted(ran) == ["a", "b", "plain"])
