"""Read the feed: all changes that have become visible since the last read, in whatever order they were committed.

The cursor is a snapshot, not a number. So the rows of a transaction that was still running are found when it commits,
and a long transaction delays no other. No row is skipped or read twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import asyncpg

from onceward.db import Connection
from onceward.live.snapshot import Snapshot, Version
from onceward.statements import read_statement

ADVANCE = read_statement("live", "advance")
START = read_statement("live", "start_feed")

Change = tuple[int, str | None, str | None]
"""The table, key and value of a change. Without a key, all rows of the table may have changed."""
ACCESS = 0
"""In place of a table: the access of a key, session, user or organization has changed."""
AccessChanges = set[tuple[str | None, str | None]]
"""The kinds and ids of those whose access has changed."""


@dataclass(frozen=True, slots=True)
class TopicMessage:
    """One message of a topic."""

    organization: UUID | None
    topic: str
    id: int
    at: str
    payload: Any


@dataclass(frozen=True, slots=True)
class Advance:
    """One read of the feed. `reset` means that the feed has a gap before `version`, so every query must run again."""

    version: Version
    reset: bool
    changes: frozenset[Change]
    messages: tuple[TopicMessage, ...]


class FeedReader:
    """Reads the feed and keeps the position."""

    def __init__(self) -> None:
        self.version: Version | None = None

    async def start(self, conn: Connection) -> Version:
        """Start at the current snapshot. Changes that are already visible are not read."""
        row = await conn.fetchrow(START)
        if row is None:
            raise RuntimeError("onceward.feed_state has no row; insert it with `default values`")
        self.version = Version(row["epoch"], row["life"], Snapshot.parse(row["snapshot"]))
        return self.version

    async def advance(self, conn: Connection, topics: Sequence[str] = ()) -> Advance:
        """Read everything that has become visible. If this fails, the position stays and the next call reads it
        again."""
        before = self.version or await self.start(conn)
        row = await conn.fetchrow(
            ADVANCE, str(before.snapshot.xmax), [str(each) for each in before.snapshot.running], list(topics)
        )
        if row is None:
            raise RuntimeError("onceward.feed_state has no row; insert it with `default values`")
        self.version = Version(row["epoch"], row["life"], Snapshot.parse(row["snapshot"]))
        return Advance(
            version=self.version,
            reset=broken_between(before, self.version, row["trimmed"]),
            changes=frozenset((relation, key, value) for relation, key, value in row["changes"] or ()),
            messages=tuple(read_message(each) for each in row["messages"] or ()),
        )


def broken_between(before: Version, now: Version, trimmed: str | None) -> bool:
    """Return whether changes after `before` may be missing from the feed, by trimming, a new epoch or a crash."""
    if not before.comparable(now) or now.snapshot.xmax < before.snapshot.xmax:
        return True
    return trimmed is not None and not before.snapshot.includes(Snapshot.parse(trimmed))


def read_message(row: Sequence[Any] | asyncpg.Record) -> TopicMessage:
    organization, topic, id, at, payload = row
    organization_id = organization if organization is None or isinstance(organization, UUID) else UUID(organization)
    return TopicMessage(organization_id, topic, id, at, payload)
