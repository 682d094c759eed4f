"""Let duplicates wait for the result of an event that is being handled.

One query every 50 ms serves all waiting requests. Each request waits for at most 5 seconds.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

import structlog

from onceward.background import Loop
from onceward.background.loop import LONGEST_STEP_S
from onceward.db import FAILED, Database, loudness
from onceward.inbox.store import Stored, standing
from onceward.statements import read_statement

log = structlog.get_logger(__name__)

WAIT_S = 5.0
FIRST_LOOK_S = 0.02
LOOK_EVERY_S = 0.05
MOST_WAITING = 2_000
ENDED = frozenset({"success", "failed", "dead_letter"})

LOOK = read_statement("inbox", "read_states")


class Waiting:
    """The waiting requests, by event.

    `until_idle` returns when the attempt is over, `until_ended` when the event is finished.
    """

    def __init__(self, db: Database) -> None:
        self._db = db
        self._latest: dict[int, Stored] = {}
        self._waiters: dict[int, int] = {}
        self._count = 0
        self._looked = asyncio.Condition()
        self._wanted = asyncio.Event()
        self._loop = Loop("waiting for results", self._look, longest_step_s=LONGEST_STEP_S)

    async def until_idle(self, stored: Sequence[Stored]) -> list[Stored] | None:
        """Return the events once none is running, or None if one still runs after `WAIT_S` or too many requests
        wait."""
        deadline = time.monotonic() + WAIT_S
        idle: list[Stored] = []
        for each in stored:
            seen = each if not each.running else await self._wait(each.seq, deadline, ended=False)
            if seen is None:
                return None
            idle.append(seen)
        return idle

    async def until_ended(self, seq: int) -> Stored | None:
        """Return the finished event, or None if it does not finish within `WAIT_S`."""
        return await self._wait(seq, time.monotonic() + WAIT_S, ended=True)

    async def start(self) -> None:
        await self._loop.start()

    async def stop(self) -> None:
        await self._loop.stop()

    async def _wait(self, seq: int, deadline: float, *, ended: bool) -> Stored | None:
        if self._count >= MOST_WAITING:
            return None
        self._count += 1
        self._waiters[seq] = self._waiters.get(seq, 0) + 1
        self._wanted.set()
        try:
            async with asyncio.timeout(max(0.0, deadline - time.monotonic())), self._looked:
                while True:
                    await self._looked.wait()
                    seen = self._latest.get(seq)
                    if seen is not None and (seen.status in ENDED or not (ended or seen.running)):
                        return seen
        except TimeoutError:
            return None
        finally:
            self._count -= 1
            self._waiters[seq] -= 1
            if not self._waiters[seq]:
                del self._waiters[seq]

    async def _look(self) -> None:
        """Look once, if requests wait. If the query fails, the requests time out and their senders are asked to
        retry."""
        self._wanted.clear()
        if not self._waiters:
            with self._loop.idle():
                await self._wanted.wait()
            await asyncio.sleep(FIRST_LOOK_S)
        try:
            rows = await self._db.fetch(LOOK, list(self._waiters))
        except FAILED as error:
            log.log(loudness(error), "results.read_failed", error=type(error).__name__)
            rows = []
        self._latest = {row["seq"]: standing(row) for row in rows}
        async with self._looked:
            self._looked.notify_all()
        await asyncio.sleep(LOOK_EVERY_S)
