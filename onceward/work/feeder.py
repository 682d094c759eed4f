"""Claim the due work of one queue for its slots. Work outside lanes and work in lanes share the room of every turn."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Generator, Mapping, Sequence
from typing import Any

import structlog

from onceward.background import Loop
from onceward.background.loop import LONGEST_STEP_S
from onceward.db import FAILED, Connection
from onceward.db.unreadable import Unreadable
from onceward.work.claim import ClaimQuery, as_lines, claim, claim_lanes, find_lines, newest_lines
from onceward.work.claim_connections import ClaimConnections
from onceward.work.claim_size import Pacing
from onceward.work.claimed import Claimed
from onceward.work.idle_flags import IdleFlags
from onceward.work.idleness import Idleness, wait_for
from onceward.work.lane_turns import LaneTurns
from onceward.work.leases import Leases
from onceward.work.lines import Lines, Plan
from onceward.work.round import BEGINNING
from onceward.work.shares import Shares
from onceward.work.slots import Slots
from onceward.work.suspects import Suspects
from onceward.work.task import Kind

log = structlog.get_logger(__name__)

GRACE_S = 5.0
COLLECT_S = 0.004
"""A claim for work that calls outside services waits this long for more slots to become free."""
CLAIMS_A_TURN = 3
"""A claim whose lines have less than it asked for is followed by another one in the same turn, up to this many."""


class Feeder:
    """Claims work when the slots of the queue need some, and waits for a wake-up or a poll when none is due."""

    def __init__(
        self,
        slots: Slots,
        pacing: Pacing,
        leases: Leases,
        suspects: Suspects,
        connections: ClaimConnections,
        kinds: Mapping[str, Kind],
        flags: IdleFlags,
        *,
        queue: str,
        tasks: Sequence[str],
        worker: int,
        poll_s: float,
        fair: bool = True,
    ) -> None:
        self._slots = slots
        self._pacing = pacing
        self._leases = leases
        self._suspects = suspects
        self._connections = connections
        self._kinds = kinds
        self._queue = queue
        self._names = list(tasks)
        self._worker = worker
        self._poll_s = poll_s
        self._idleness = Idleness(flags, queue, poll_s=poll_s)
        self._work_expected = asyncio.Event()
        self._stopping = asyncio.Event()
        self._lines = Lines(fair=fair, poll_s=poll_s)
        self._looked_at = BEGINNING
        self._lane_turns = LaneTurns(fair=fair)
        self._shares = Shares()
        self._resume_s: float | None = None
        self._loop = Loop(f"feed {queue}", self._feed, longest_step_s=LONGEST_STEP_S)

    async def start(self) -> None:
        await self._loop.start()

    async def stop(self) -> None:
        """Let a running claim finish: a cancelled claim may still take rows, and this worker would not know which."""
        self._stopping.set()
        self._work_expected.set()
        self._suspects.may_claim.set()
        self._slots.pause()
        await self._loop.stop(grace_s=GRACE_S)
        with contextlib.suppress(*FAILED):  # a flag ends with its connection
            await self._idleness.stop()

    def wake(self) -> None:
        """New or rescued work was committed: start the next claim at the beginning, not at the watermarks."""
        self._lines.forget_marks()
        self._shares.expect_all()
        self._work_expected.set()

    def suspect_ended(self) -> None:
        """A suspect of this queue has ended: claim other work at once, and the next suspect after some time."""
        rest_s = self._suspects.ended()
        self.wake()
        asyncio.get_running_loop().call_later(rest_s, self.wake)

    async def _feed(self) -> None:
        """Claim once, and wait if nothing was due."""
        claimed = await self._step()
        if claimed == 0 and not self._stopping.is_set():
            await self._wait_for_work()
        elif claimed:
            await self._idleness.found_work(claimed, full=self._lines.is_full)

    async def _step(self) -> int | None:
        """Wait until the slots need work, then claim. Return how many rows were claimed, or None without a claim."""
        pacing, slots = self._pacing, self._slots
        if not self._suspects.may_claim.is_set() and not self._stopping.is_set():
            with self._loop.idle():
                await self._suspects.may_claim.wait()
            return None
        pacing.measure()
        room = self._room()
        if room <= 0:
            slots.hungry.clear()
            with self._loop.idle():
                await slots.hungry.wait()
            return None
        if pacing.should_collect(room):
            await asyncio.sleep(COLLECT_S)
            room = self._room()
        self._work_expected.clear()
        if self._stopping.is_set():
            return None
        async with self._connections.use() as conn:
            return await self._claim(conn, room)

    def _room(self) -> int:
        ready = self._slots.ready
        return self._pacing.room(len(ready), ready.behind, ready.held)

    async def _wait_for_work(self) -> None:
        """Wait for a wake-up, the next poll, or the time at which a skipped lane may run again."""
        pause_s = await self._idleness.pause_s()
        if self._resume_s is not None:
            pause_s = min(pause_s, max(0.001, self._resume_s))
        with self._loop.idle():
            has_work = pause_s > 0 and await wait_for(self._work_expected, pause_s)
        if not has_work:
            self._shares.expect_all()  # a poll looks for everything

    async def _claim(self, conn: Connection, room: int) -> int:
        claimed = 0
        for is_lanes in self._shares.turn():
            share = self._shares.of(room - claimed, is_lanes=is_lanes, freed=self._leases.freed)
            if share <= 0 or self._stopping.is_set() or not self._suspects.may_claim.is_set():
                continue
            work = await (self._claim_lanes(conn, share) if is_lanes else self._claim_plain(conn, share))
            claimed += await self._hand_out(conn, work)
        if self._shares.has_more:
            self._work_expected.set()
        return claimed

    async def _hand_out(self, conn: Connection, work: list[Claimed]) -> int:
        """Give claimed work to the slots at once, before the next claim."""
        if work:
            try:
                await self._load(conn, work)
            except BaseException:
                # The claim is committed, but the connection broke before the bodies came.
                self._give_up(work)
                raise
            self._slots.add(work)
        return len(work)

    def _give_up(self, work: list[Claimed]) -> None:
        """Release claimed work that did not reach the slots. The claims loop does it."""
        for each in work:
            self._leases.give_up(each)
        self._suspects.take_back(work)

    async def _load(self, conn: Connection, work: list[Claimed]) -> None:
        """Load the bodies of work that is not a job, with one statement per kind."""
        others: dict[str, list[Claimed]] = {}
        for each in work:
            if each.kind != "job":
                others.setdefault(each.kind, []).append(each)
        for kind, group in others.items():
            try:
                bodies = await self._kinds[kind].load(conn, [each.id for each in group])
            except FAILED:
                raise
            except Exception:
                bodies = await self._load_apart(conn, self._kinds[kind], group)
            for each in group:
                each.body = bodies.get(each.id)

    async def _load_apart(self, conn: Connection, kind: Kind, group: list[Claimed]) -> dict[int, Any]:
        """Load bodies one by one, because one of them cannot be read: only its own work fails."""
        bodies: dict[int, Any] = {}
        for each in group:
            try:
                bodies |= await kind.load(conn, [each.id])
            except FAILED:
                raise
            except Exception as error:
                log.error("body.unreadable", kind=each.kind, id=each.id, task=each.task, error=type(error).__name__)
                bodies[each.id] = Unreadable(error)
        return bodies

    @contextlib.contextmanager
    def _lease(self) -> Generator[int]:
        """Create a lease for one claim. If the reply is lost, forget the lease, so that upkeep releases its rows."""
        lease = self._leases.begin()
        try:
            yield lease
        except BaseException:
            self._leases.lost(lease)
            raise

    async def _claim_plain(self, conn: Connection, room: int) -> list[Claimed]:
        """Claim work outside lanes. If the lines of a round have less than the room, claim again: others may have
        more."""
        work: list[Claimed] = []
        lanes: bool | None = None
        try:
            for _ in range(CLAIMS_A_TURN):
                await self._look_for_lines(conn)
                left = room - len(work)
                plan = self._lines.plan(left)
                taken = await self._claim_once(conn, plan, left)
                work += taken.work
                lanes = lanes if taken.lanes is None else taken.lanes
                if taken.suspect is not None:  # claimed instead of other work, of which this claim says nothing
                    break
                self._lines.took(plan, left, taken.found)
                is_paused = self._stopping.is_set() or not self._suspects.may_claim.is_set()
                if plan.oldest is not None or len(work) >= room or is_paused:
                    break
            else:
                self._work_expected.set()
        except BaseException:
            self._give_up(work)  # claimed before the connection broke
            raise
        self._shares.found_plain(len(work), lanes=lanes)
        return work

    async def _claim_once(self, conn: Connection, plan: Plan, room: int) -> ClaimQuery:
        with self._suspects.reserve() as turn, self._lease() as lease:
            taken = await claim(
                conn,
                queue=self._queue,
                tasks=self._names,
                most=room,
                lease=lease,
                worker=self._worker,
                plan=plan,
                suspect=turn.is_free,
            )
            self._leases.taken(lease, taken.work)
            turn.suspect = taken.suspect
        return taken

    async def _look_for_lines(self, conn: Connection) -> None:
        """Look for lines that have due work, if the next claim is part of a round and the last look is some time
        ago."""
        for_all = self._lines.look()
        if for_all is None:
            return
        began = time.monotonic()
        rows = await (find_lines(conn, self._queue) if for_all else newest_lines(conn, self._queue, self._looked_at))
        if rows:
            self._looked_at = rows[0]["at"]
        self._lines.looked(as_lines(rows), for_all=for_all, began=began)

    async def _claim_lanes(self, conn: Connection, room: int) -> list[Claimed]:
        freed = self._leases.freed
        plan = self._lane_turns.plan()
        with self._suspects.reserve() as turn, self._lease() as lease:
            taken = await claim_lanes(
                conn,
                queue=self._queue,
                tasks=self._names,
                most=room,
                lease=lease,
                worker=self._worker,
                suspect=turn.is_free,
                together=self._slots.quick(),
                plan=plan,
            )
            self._leases.taken(lease, taken.work)
            turn.suspect = next((each for each in taken.work if each.suspect), None)
        goes_on = self._lane_turns.took(plan, taken.turns)
        self._resume_s = taken.resume_s
        if taken.work or goes_on:
            self._shares.found_in_lanes(plain=taken.plain)
        else:
            rest_s = self._poll_s if taken.resume_s is None else min(taken.resume_s, self._poll_s)
            self._shares.found_no_lane(rest_s if taken.turns.visited else None, freed=freed, plain=taken.plain)
            if taken.turns.visited:  # every lane may be full: claim again when a lane has a free slot
                self._leases.when_freed(self._work_expected)
        return taken.work
