"""Strip old rows of a large table without changing an index: what is written must not grow with the table."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import Any

from onceward.db import Database

TURNS = 6
"""The tables leave 15 % of a page free for new versions of their rows: room for every sixth row."""
WINDOW = 20_000
"""How many rows a turn passes before the next turn begins: few enough that their pages are still in memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stripping:
    """Runs `statement` over windows of old rows, each window in several turns.

    The statement gets `arguments`, then the turn, the number of turns, the last row that this turn passed, and how many rows to
    look at. It returns how many of these were old (`looked`) and the last of them (`last`). If it is given no row, it begins
    after its stored mark. Only the last turn moves the mark. The table has a fillfactor of 85 and no index on what is stripped.
    """

    db: Database
    statement: str
    arguments: tuple[Any, ...]
    at_once: int = 1000
    window: int = WINDOW
    pause_s: float = 1.0
    """The time between two turns. The room of old versions is free when the transactions that began before have ended."""

    async def all(self) -> int:
        """Strip all old rows; return how many were examined."""
        total = 0
        while True:
            looked = await self.next_window()
            total += looked
            if looked < self.window:
                return total

    async def next_window(self) -> int:
        """Strip the next old rows after the mark; return how many were examined.

        Each statement is a transaction. The next call repeats what an interrupted call has not finished.
        """
        looked, through = await self._turn(0, None)
        for turn in range(1, TURNS):
            if through is None:
                break
            await asyncio.sleep(self.pause_s)
            looked, _ = await self._turn(turn, through)
        return looked

    async def _turn(self, turn: int, through: int | None) -> tuple[int, int | None]:
        """Pass one window, with pauses as long as the work. Return how many rows were old, and the last of them."""
        looked, last = 0, None
        while True:
            began = time.monotonic()
            row = await self.db.fetchrow(self.statement, *self.arguments, turn, TURNS, last, self.at_once)
            assert row is not None
            looked, last = looked + row["looked"], row["last"] or last
            ended = row["looked"] < self.at_once or looked >= self.window
            if ended or (through is not None and last is not None and last >= through):
                return looked, last
            await asyncio.sleep(time.monotonic() - began)
