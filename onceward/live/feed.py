"""Read the feed: what became visible since the last look, whoever wrote it and in whatever order it committed.

The cursor is a snapshot, not a number: rows of a transaction that was still running then are found when it commits,
and a transaction that stays open delays nobody. Nothing is skipped and nothing is read twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any
from uuid import UUID

import asyncpg

from onceward.db import Connection
from onceward.live.snapshot import Snapshot, Version

ADVANCE = files("onceward.live").joinpath("sql/advance.sql").read_text(encoding="utf-8")
START = """
select pg_current_snapshot()::text as snapshot, epoch,
       coalesce((select life from onceward.feed_life), onceward.begin_feed_life()) as life
  from onceward.feed_state
"""

Change = tuple[int, str | None, str | None]
"""Table, key and value; no key means every key of the table."""


@dataclass(frozen=True, slots=True)
class Said:
    """A message of a topic."""

    organization: UUID | None
    topic: str
    id: int
    at: str
    payload: Any


@dataclass(frozen=True, slots=True)
class Advance:
    """One step of a reader. `reset`: the feed has a hole before `version`, everything must be looked at anew."""

    version: Version
    reset: bool
    changes: frozenset[Change]
    messages: tuple[Said, ...]


class Reader:
    """A position in the feed."""

    def __init__(self) -> None:
        self.version: Version | None = None

    async def start(self, conn: Connection) -> Version:
        """Take up position here: what is visible now counts as read."""
        row = await conn.fetchrow(START)
        if row is None:
            raise RuntimeError("onceward.feed_state has lost its row: insert it again with `default values`")
        self.version = Version(row["epoch"], row["life"], Snapshot.parse(row["snapshot"]))
        return self.version

    async def advance(self, conn: Connection, topics: Sequence[str] = ()) -> Advance:
        """Read on to what is visible now. If it fails the position stays, and the next call reads it all."""
        before = self.version or await self.start(conn)
        row = await conn.fetchrow(
            ADVANCE, str(before.snapshot.xmax), [str(each) for each in before.snapshot.running], list(topics)
        )
        if row is None:
            raise RuntimeError("onceward.feed_state has lost its row: insert it again with `default values`")
        self.version = Version(row["epoch"], row["life"], Snapshot.parse(row["snapshot"]))
        return Advance(
            version=self.version,
            reset=broken_between(before, self.version, row["trimmed"]),
            changes=frozenset((relation, key, value) for relation, key, value in row["changes"] or ()),
            messages=tuple(said(each) for each in row["messages"] or ()),
        )


def broken_between(before: Version, now: Version, trimmed: str | None) -> bool:
    """Whether something that `before` had not seen may be gone from the feed, or the database is not the same."""
    if not before.comparable(now) or now.snapshot.xmax < before.snapshot.xmax:
        return True
    return trimmed is not None and not before.snapshot.includes(Snapshot.parse(trimmed))


def said(row: Sequence[Any] | asyncpg.Record) -> Said:
    organization, topic, id, at, payload = row
    acting = organization if organization is None or isinstance(organization, UUID) else UUID(organization)
    return Said(acting, topic, id, at, payload)
