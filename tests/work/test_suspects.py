"""A suspect begins when its process holds nothing else, or has waited long enough."""

from __future__ import annotations

import pytest

from onceward.work.claimed import Claimed
from onceward.work.leases import Leases
from onceward.work.suspects import PATIENCE_S, Suspects


class World:
    """A process that holds one other piece of work and has claimed a suspect."""

    def __init__(self, crashes: int) -> None:
        self.now = 100.0
        self.leases = Leases()
        self.suspects = Suspects(self.leases, lambda: self.now)
        self.begun: list[int] = []
        self.other = self.claim(1, 0)
        with self.suspects.reserve() as turn:
            turn.suspect = self.suspect = self.claim(2, crashes)
        self.suspects.begin_alone(lambda work: self.begun.append(work.id))

    def claim(self, id: int, crashes: int) -> Claimed:
        work = Claimed(self.leases.begin(), id, "job", "task", crashes=crashes)
        self.leases.taken(work.lease, [work])
        return work

    def is_free(self) -> bool:
        with self.suspects.reserve() as turn:
            return turn.is_free


def test_a_suspect_begins_when_other_work_and_claims_have_ended() -> None:
    world = World(2)
    claiming = world.leases.begin()
    world.leases.done(world.other)
    assert world.begun == []
    world.leases.taken(claiming, [])
    assert world.begun == [2]


@pytest.mark.parametrize(("crashes", "patience_s"), [(2, PATIENCE_S), (4, 4 * PATIENCE_S)])
def test_a_suspect_begins_beside_work_that_does_not_end(crashes: int, patience_s: float) -> None:
    world = World(crashes)
    world.now += patience_s - 1
    world.suspects.check()
    assert world.begun == []
    world.now += 1
    world.suspects.check()
    assert world.begun == [2]


def test_after_a_suspect_other_work_gets_as_much_time() -> None:
    world = World(2)
    assert not world.is_free()
    world.now += 3
    world.suspects.ended()
    assert world.suspects.may_claim.is_set()
    world.now += 2
    assert not world.is_free()
    world.now += 1
    assert world.is_free()


def test_a_suspect_that_runs_for_long_shares_its_process() -> None:
    world = World(3)
    world.leases.done(world.other)
    assert world.begun == [2]
    world.now += 2 * PATIENCE_S - 1
    world.suspects.check()
    assert not world.suspects.may_claim.is_set()
    world.now += 1
    world.suspects.check()
    assert world.suspects.may_claim.is_set()
    assert not world.is_free(), "one suspect at a time"


def test_a_suspect_that_is_released_does_not_begin() -> None:
    world = World(2)
    world.suspects.take_back([world.suspect])
    world.leases.done(world.other)
    assert world.begun == []
    assert world.suspects.held is None
