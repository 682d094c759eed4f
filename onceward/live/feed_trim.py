"""Trim the feed. Any node may run it; a missed run only leaves more rows.

A row is deleted when it has been visible for the retention time. The time of writing does not count, because a
transaction may commit hours after its first statement. So each run stores a mark (a snapshot with its time), and rows
that a sufficiently old mark sees are deleted.
"""

from __future__ import annotations

from onceward.db import Database
from onceward.statements import read_statement

LOCK = 0x6C697665  # "live"

OLD_MARK = read_statement("live", "find_old_mark")
TRIM_FEED = read_statement("live", "trim_feed")
TRIM_TOPICS = read_statement("live", "trim_topics")
TRIM_LONG_TOPICS = read_statement("live", "trim_long_topics")


async def trim(db: Database, *, retention_s: float, topic_retention_s: float, topic_replay: int) -> int:
    """Delete rows that are older than the retention time. Returns the number of deleted rows of the feed."""
    async with db.transaction(role="engine") as tx:
        if not await tx.fetchval("select pg_try_advisory_xact_lock($1)", LOCK):
            return 0
        await tx.execute("insert into onceward.feed_marks default values")
        mark = await tx.fetchval(OLD_MARK, retention_s)
        if mark is None:
            return 0
        # In the same transaction as the deletes: a reader that misses rows must also see this mark.
        await tx.execute("update onceward.feed_state set trimmed = $1::text::pg_snapshot", mark)
        command_tag = await tx.execute(TRIM_FEED, mark)
        await tx.execute(TRIM_TOPICS, topic_retention_s, mark)
        # A message is deleted when it has been visible for the retention time, at the latest one more after that.
        await tx.execute(TRIM_LONG_TOPICS, 2 * topic_replay, mark, 3 * retention_s + 60)
        await tx.execute(
            "delete from onceward.feed_marks where taken_at < clock_timestamp() - make_interval(secs => $1)",
            retention_s * 2,
        )
        return int(command_tag.split()[-1])
