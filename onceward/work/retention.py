"""Prune or strip old rows of a large table: every row is examined once, and again only when it is due.

Each table has one statement that prunes the given rows and returns those that must stay for now. A mark in
`onceward.prune_marks` holds the last id that was examined. A row that had to stay (unfinished, a dead letter, or with a
time in the future) is written to `onceward.prune_later` with the time at which it is examined again.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import takewhile
from typing import Any

from asyncpg import Record

from onceward.db import Database
from onceward.statements import read_statement

TURNS = 6
"""Tables that are stripped leave 15 % of a page free for new versions of their rows: room for every sixth row."""
WINDOW = 20_000
"""How many rows a turn passes before the next turn begins: few enough that their pages are still in memory."""
AGAIN = timedelta(days=1)
"""When a row that is still unfinished is examined again."""

MARK = "select through from onceward.prune_marks where name = $1"
MOVE = read_statement("work", "move_prune_mark")
DUE = "select id from onceward.prune_later where name = $1 and due_at <= onceward.now() order by due_at limit $2"
DONE = read_statement("work", "examined_again")


def deletion(table: str, *, finished: str = "true") -> str:
    """Return a statement that deletes the old rows of a table for which the SQL `finished` over the row `r` holds."""
    return (
        f"with gone as (delete from {table} r where r.id = any($2::bigint[])"
        f" and r.created_at < onceward.now() - $1::interval"
        f" and ({finished}) returning r.id) select r.id from {table} r where r.id = any($2::bigint[])"
        " and not exists (select from gone where gone.id = r.id)"
    )


def retentions(db: Database, finished: Mapping[str, str], *, keep: timedelta) -> list[Retention]:
    """Return the retentions of tables of the schema `onceward`, each with the condition over the row `r` that ends
    it."""
    return [
        Retention(
            db=db, name=name, table=f"onceward.{name}", prune=deletion(f"onceward.{name}", finished=each), keep=keep
        )
        for name, each in finished.items()
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """How the old rows of one table end.

    `prune` gets `keep` and the ids of rows, and returns the ids of those that stay. It decides by the current row,
    because an operator may replay one at this moment. With several `turns` a statement prunes every sixth row of a
    window, so that new versions of stripped rows find room in their pages and no index changes; the table has a
    fillfactor of 85 and no index on what is stripped.
    """

    db: Database
    name: str
    """The name of the mark."""
    table: str
    prune: str
    keep: timedelta
    id: str = "id"
    at: str = "created_at"
    """The column with the time from which `keep` counts."""
    only: str = "true"
    """SQL over the row `r`: whether the row belongs to this retention."""
    later: str | None = None
    """The name under which rows wait to be examined again, if several retentions share it."""
    turns: int = 1
    at_once: int = 1000
    window: int = WINDOW
    pause_s: float = 1.0
    """The time between two turns. The room of old versions is free when the transactions that began before have
    ended."""

    @property
    def listing(self) -> str:
        """Return the statement that lists the rows after an id: is each old, and from when?"""
        return (
            f"select r.{self.id} as id, r.{self.at} < onceward.now() - $1::interval as is_old,"
            f" r.{self.at} > onceward.now() + interval '1 day' as is_ahead, r.{self.at} + $1::interval as old_at,"
            f" {self.only} as is_ours from {self.table} r where r.{self.id} > $2 order by r.{self.id} limit $3"
        )

    @property
    def _later(self) -> str:
        return self.later or self.name

    async def all(self) -> int:
        """Prune all old rows after the mark and those that are due again; return how many after the mark were
        examined."""
        total = 0
        while True:
            looked = await self.next_window()
            total += looked
            if looked < self.window:
                break
        while await self.examine_again() == self.at_once:
            pass
        return total

    async def next_window(self) -> int:
        """Prune the next old rows after the mark; return how many were examined.

        Each statement is a transaction, and the mark moves in the last one: the next call repeats an interrupted one.
        """
        mark: int | None = await self.db.fetchval(MARK, self.name)
        passed = await self._rows_to_pass(mark or 0)
        if not passed:
            return 0
        later = {row["id"]: row["old_at"] for row in passed if row["is_ours"] and not row["is_old"]}
        for turn in range(self.turns):
            if turn:
                await asyncio.sleep(self.pause_s)
            for first in range(0, len(passed), self.at_once):
                chunk = passed[first : first + self.at_once][turn :: self.turns]
                ids = [row["id"] for row in chunk if row["is_ours"] and row["is_old"]]
                later |= dict.fromkeys(await self._prune(ids), None)
        again = await self.db.fetchval("select onceward.now() + $1::interval", AGAIN) if later else None
        due = [again if at is None else at for at in later.values()]
        await self.db.execute(MOVE, self.name, mark or 0, passed[-1]["id"], list(later), due, self._later)
        return len(passed)

    async def _rows_to_pass(self, after: int) -> list[Record]:
        """Return rows up to the last old one.

        A single row that is not old, or far in the future, does not stop the mark.
        """
        rows: list[Record] = []
        while len(rows) < self.window:
            page = await self.db.fetch(self.listing, self.keep, after, self.at_once)
            rows += page
            if len(page) < self.at_once or not any(row["is_old"] or row["is_ahead"] for row in page):
                break
            after = page[-1]["id"]
        rows = rows[: self.window]
        last = max((n for n, row in enumerate(rows, 1) if row["is_old"]), default=0)
        return rows[:last] or list(takewhile(lambda row: row["is_ahead"], rows))

    async def examine_again(self) -> int:
        """Prune rows that had to stay when the mark passed them and are due again; return how many were examined."""
        name = self._later
        ids = [row["id"] for row in await self.db.fetch(DUE, name, self.at_once)]
        if ids:
            await self.db.execute(DONE, name, ids, await self._prune(ids), AGAIN)
        return len(ids)

    async def _prune(self, ids: Sequence[int]) -> list[int]:
        """Prune these rows and return those that stay, with a pause as long as the work."""
        if not ids:
            return []
        began = time.monotonic()
        rows: list[Any] = await self.db.fetch(self.prune, self.keep, ids)
        await asyncio.sleep(time.monotonic() - began)
        return [row["id"] for row in rows]
