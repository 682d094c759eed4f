"""Take the numbers of events that are handled inside their requests. Requests that arrive together share a round
trip."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from typing import NamedTuple

from onceward.background import Tasks


class Numbered(NamedTuple):
    """The number of an event, which is the id of its work, and the time at which the database gave it."""

    seq: int
    received_at: datetime


class Numbering:
    """Gives numbers. While one round trip runs, the requests for the next one collect.

    No number is kept for later: numbers follow time.
    """

    def __init__(self, take: Callable[[int], Awaitable[Sequence[Numbered]]]) -> None:
        self._take = take
        self._waiting: list[asyncio.Future[Numbered]] = []
        self._tasks = Tasks("numbers of events")
        self._serving = False

    async def next(self) -> Numbered:
        """Return the next number. Raises what the database raises."""
        future: asyncio.Future[Numbered] = asyncio.get_running_loop().create_future()
        self._waiting.append(future)
        if not self._serving:
            self._serving = True
            self._tasks.start(self._serve())
        return await future

    async def _serve(self) -> None:
        try:
            while self._waiting:
                batch, self._waiting = self._waiting, []
                await self._answer(batch)
        finally:
            self._serving = False

    async def _answer(self, batch: Sequence[asyncio.Future[Numbered]]) -> None:
        try:
            for each, number in zip(batch, await self._take(len(batch)), strict=True):
                if not each.done():
                    each.set_result(number)
        except Exception as error:
            for each in batch:
                if not each.done():
                    each.set_exception(error)
