"""Keep the feed short. Any node may do it; a missed turn costs some rows more.

A row goes when it has been visible for the retention time, which is not when it was written: a transaction may commit
hours after its first statement. So marks are kept (a snapshot and when it was taken), and what an old enough mark saw is
deleted.
"""

from __future__ import annotations

from onceward.db import Database

LOCK = 0x6C697665  # "live"

OLD_MARK = """
select snapshot::text from onceward.feed_marks
 where taken_at <= clock_timestamp() - make_interval(secs => $1) order by taken_at desc limit 1
"""

TRIM_FEED = """
delete from onceward.feed
 where xid < pg_snapshot_xmax($1::text::pg_snapshot) and pg_visible_in_snapshot(xid, $1::text::pg_snapshot)
"""

TRIM_TOPICS = """
delete from onceward.topic_messages m
 where m.created_at < clock_timestamp() - make_interval(secs => $1)
   and pg_visible_in_snapshot(m.xid, $2::text::pg_snapshot)
"""

TRIM_LONG_TOPICS = """
delete from onceward.topic_messages m using (
    select id, row_number() over (partition by topic, organization_id order by id desc) as place, xid
      from onceward.topic_messages
) kept
 where kept.id = m.id and kept.place > $1 and pg_visible_in_snapshot(m.xid, $2::text::pg_snapshot)
"""


async def trim(db: Database, *, retention_s: float, topic_retention_s: float, topic_replay: int) -> int:
    """Remove what everyone has had the time to read; returns how many rows of the feed that were."""
    async with db.transaction(role="engine") as tx:
        if not await tx.fetchval("select pg_try_advisory_xact_lock($1)", LOCK):
            return 0
        await tx.execute("insert into onceward.feed_marks default values")
        mark = await tx.fetchval(OLD_MARK, retention_s)
        if mark is None:
            return 0
        # Said before it is done: a reader that finds rows missing must find this, too.
        await tx.execute("update onceward.feed_state set trimmed = $1::text::pg_snapshot", mark)
        done = await tx.execute(TRIM_FEED, mark)
        await tx.execute(TRIM_TOPICS, topic_retention_s, mark)
        await tx.execute(TRIM_LONG_TOPICS, 2 * topic_replay, mark)
        await tx.execute(
            "delete from onceward.feed_marks where taken_at < clock_timestamp() - make_interval(secs => $1)",
            retention_s * 2,
        )
        return int(done.split()[-1])
