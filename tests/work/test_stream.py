"""Claims by time go on while they are fair, and nobody waits for more than its share, however work was enqueued."""

from __future__ import annotations

import random
from collections import Counter, deque
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from heapq import heapify, heappop, heapreplace
from uuid import UUID

import pytest

from onceward.work.lines import Lines
from onceward.work.round import Found, Line
from onceward.work.stream import Stream

START = datetime(2026, 1, 1, tzinfo=UTC)
ROOM = 200
CLAIM_S = 0.02


class Simulated:
    """Due rows of several lines in the order of time, and claims of them as `claim.sql` makes them."""

    def __init__(self, order: Sequence[int], weights: dict[int, int] | None = None) -> None:
        self.now = 100.0
        self.lines = Lines(poll_s=1.0, clock=lambda: self.now)
        self.weights = weights or {}
        self.rows: dict[int, deque[int]] = {}
        self.count = 0
        self.by_time = 0
        self.claims: list[list[int]] = []
        for line in order:
            self.add(line)

    def add(self, line: int) -> None:
        self.rows.setdefault(line, deque()).append(self.count)
        self.count += 1

    def claim(self, room: int = ROOM) -> list[int]:
        """Make a turn of claims, as the feeder does. Return the lines of the rows in their order."""
        self.now += CLAIM_S
        taken: list[int] = []
        for _ in range(3):
            if (for_all := self.lines.look()) is not None:
                waiting = [Line(n, UUID(int=n), self.weights.get(n, 1)) for n, rows in self.rows.items() if rows]
                newest = sorted(waiting, key=lambda each: -self.rows[each.line][-1])[:50]
                self.lines.looked(waiting if for_all else newest, for_all=for_all, began=self.now)
            left = room - len(taken)
            plan = self.lines.plan(left)
            got: list[int] = []
            last: dict[int, int] = {}
            for pick in plan.picks:
                for _ in range(min(pick.take, left - len(got), len(self.rows.get(pick.line, ())))):
                    last[pick.line] = self.rows[pick.line].popleft()
                    got.append(pick.line)
            if plan.oldest is not None:
                self.by_time += 1
                first = [(rows[0], line) for line, rows in self.rows.items() if rows]
                heapify(first)
                while first and len(got) < left:
                    row, line = first[0]
                    last[line] = row
                    self.rows[line].popleft()
                    got.append(line)
                    if self.rows[line]:
                        heapreplace(first, (self.rows[line][0], line))
                    else:
                        heappop(first)
            found = {line: Found(n, START + timedelta(seconds=last[line])) for line, n in Counter(got).items()}
            self.lines.took(plan, left, found)
            taken += got
            if plan.oldest is not None or len(taken) >= room:
                break
        self.claims.append(taken)
        return taken


def test_work_of_many_organizations_that_lies_beside_each_other_is_claimed_by_time() -> None:
    here = Simulated([n % 300 + 1 for n in range(9000)])
    for _ in range(20):
        assert len(here.claim()) == ROOM
    assert here.by_time >= 17, "all but those in which the first claim did not meet everybody"
    served = Counter(line for claim in here.claims for line in claim)
    assert max(served.values()) - min(served.values()) <= 8
    here.add(1000)
    assert 1000 in here.claim() + here.claim(), "one that comes is served at once, though its row is the last by time"
    here.add(7)
    before = len(here.rows[7])
    for _ in range(9000 // ROOM):
        here.claim()
    assert not here.rows[7], before
    assert not any(here.rows.values()), "and all of it ends"


def test_a_flood_is_claimed_by_time_beside_those_that_come() -> None:
    here = Simulated([1] * 5000)
    waits: list[int] = []
    for _ in range(10):
        here.add(2)
        begun = len(here.claims)
        while 2 not in here.claim():
            assert len(here.claims) - begun < 5
        waits.append(len(here.claims) - begun)
    assert max(waits) <= 3
    assert here.by_time >= 9, "the flood has no turns to take while nobody else waits"


@pytest.mark.parametrize("seed", range(6))
def test_however_work_was_enqueued_everybody_gets_its_share(seed: int) -> None:
    """Each of several organizations that have work all the time gets at least half of an equal share of every second."""
    chance = random.Random(seed)
    owners = chance.choice([2, 3, 10, 60])
    share = [chance.choice([1, 1, 1, 20, 200]) for _ in range(owners)]
    order: list[int] = []
    while len(order) < 12_000:
        line = chance.choices(range(1, owners + 1), share)[0]
        order += [line] * chance.choice([1, 1, 1, 50, 1000])
    for line in range(1, owners + 1):  # enough for all that is measured
        order += [line] * 400
    here = Simulated(order)
    for _ in range(12):
        here.claim()
    served: Counter[int] = Counter()
    for _ in range(40):
        served.update(line for line in here.claim())
    for line in range(1, owners + 1):
        if here.rows[line]:
            assert served[line] >= 40 * ROOM / owners / 2.2, (owners, served)


def test_weights_are_kept() -> None:
    here = Simulated([n % 3 + 1 for n in range(30_000)], weights={3: 4})
    for _ in range(50):
        here.claim()
    served = Counter(line for claim in here.claims[5:] for line in claim)
    assert served[3] / served[1] == pytest.approx(4, rel=0.15)


def test_a_stream_forgets_who_gets_nothing_any_more() -> None:
    stream = Stream()
    assert stream.add({1: 100, 2: 100}, 0.0)
    assert all(stream.add({2: 100, 3: 100}, 0.1 * n) for n in range(1, 4))
    assert 1 not in stream
    assert not stream.add({2: 390, 3: 10}, 0.5), "one of them gets nearly all"
    assert not stream.add({2: 1, 3: 1}, 9.0), "too slow to say anything"
