"""How many rows a queue claims: its free places, more for fast handlers, and lent places for handlers that hang."""

from __future__ import annotations

from onceward.work.claim_size import HANGS_S, LENT, MOST_HELD, Pacing
from onceward.work.task import Task


async def run(_work: object, _tx: object) -> None: ...


def task(*, outside: bool = False, ahead: bool = False, batch: int = 1) -> Task:
    return Task(
        name="t", run=run, kind="job", queue="q", outside=outside, ahead=ahead, batch=batch, transactional=batch > 1
    )


def test_a_queue_that_calls_outside_services_claims_its_free_places_only() -> None:
    pacing = Pacing([task(outside=True)], concurrency=8, connections=20)
    pacing.busy = 3
    assert (pacing.free(), pacing.room(0), pacing.room(4), pacing.room(9)) == (5, 5, 1, 0)
    assert not pacing.lend(HANGS_S * 2)


def test_a_queue_of_fast_handlers_prefetches_and_a_queue_of_slow_ones_does_not() -> None:
    pacing = Pacing([task()], concurrency=8, connections=20)
    for _ in range(100):
        pacing.took(0.001)
    assert pacing.room(0) > 8
    assert pacing.room(10_000) == 0
    for _ in range(100):
        pacing.took(1.0)
    assert pacing.room(0) == 8


def test_work_that_is_held_back_leaves_the_room_to_other_work_up_to_a_limit() -> None:
    pacing = Pacing([task()], concurrency=8, connections=20)
    for _ in range(100):
        pacing.took(0.001)
    assert pacing.room(100) > 8
    assert pacing.room(MOST_HELD, held=MOST_HELD) == 8, "nothing was done lately, so it prefetches nothing"
    assert pacing.room(MOST_HELD + 7, held=MOST_HELD + 7) == 1


def test_hanging_work_lends_its_place_up_to_a_limit() -> None:
    pacing = Pacing([task(outside=True, ahead=True)], concurrency=2, connections=20)
    assert pacing.most_slots == 2 * (1 + LENT)
    pacing.busy = 2
    assert pacing.free() == 0
    assert not pacing.lend(HANGS_S / 2), "it has not run long enough"
    assert [pacing.lend(HANGS_S * 2) for _ in range(2 * LENT + 1)] == [True] * 2 * LENT + [False]
    pacing.ended(lent=True)
    assert pacing.lend(HANGS_S * 2)


def test_a_batch_job_claims_a_whole_batch_for_each_free_place() -> None:
    assert Pacing([task(batch=25), task(outside=True)], concurrency=4, connections=20).room(0) == 100
