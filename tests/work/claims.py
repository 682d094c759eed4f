"""Claims of one queue as a worker makes them, without running the work: tests compare whose work is claimed after whose."""

from __future__ import annotations

from uuid import UUID

from onceward.db import Database
from onceward.work.claim import as_lines, claim, claim_lanes, find_lines, new_lease, newest_lines
from onceward.work.lane_turns import LaneTurns
from onceward.work.lines import Lines
from onceward.work.round import BEGINNING


class Claims:
    """Half of every claim is for work in lanes, half for other work."""

    def __init__(self, db: Database, queue: str, *, fair: bool = True) -> None:
        self._db = db
        self._queue = queue
        self._clock = 0.0
        self._lines = Lines(fair=fair, poll_s=1.0, clock=lambda: self._clock)
        self._turns = LaneTurns(fair=fair)

    async def next(self, room: int, *, ends: bool = True) -> list[UUID | None]:
        """Claim up to `room` rows of each kind. Return their organizations in order. They end at once, unless `ends` is false."""
        self._clock += 0.05
        tasks = [row["task"] for row in await self._db.fetch("select distinct task from onceward.work")]
        async with self._db.acquire() as conn:
            if (for_all := self._lines.look()) is not None:
                rows = await (find_lines(conn, self._queue) if for_all else newest_lines(conn, self._queue, BEGINNING))
                self._lines.looked(as_lines(rows), for_all=for_all, began=self._clock)
            plan = self._lines.plan(room)
            plain = await claim(conn, queue=self._queue, tasks=tasks, most=room, lease=new_lease(), worker=1, plan=plan)
            self._lines.took(plan, room, plain.found)
            begin = self._turns.plan()
            lanes = await claim_lanes(
                conn, queue=self._queue, tasks=tasks, most=room, lease=new_lease(), worker=1, suspect=True, plan=begin
            )
            self._turns.took(begin, lanes.turns)
        if ends:
            await self._db.execute("delete from onceward.work where lease is not null")
        return [each.organization for each in (*plain.work, *lanes.work)]

    async def before(self, owner: UUID | None, room: int, *, most: int = 1000, ends: bool = True) -> int:
        """Return how many rows of others are claimed before the first one of `owner`: at least `most` if there is none."""
        passed = 0
        while passed < most:
            order = await self.next(room, ends=ends)
            if owner in order:
                return passed + order.index(owner)
            if not order:
                return most
            passed += len(order)
        return passed
