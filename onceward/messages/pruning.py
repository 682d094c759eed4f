"""Strip old messages of what they said and to whom. The key stays for ever: nothing is ever sent a second time."""

from __future__ import annotations

from datetime import timedelta

from onceward.db import Database

# From a remembered mark on, so that pruning never scans what it has looked at.
STRIP = """
with mark as (
    select coalesce((select through from onceward.prune_marks where name = 'messages'), 0) as through
), window_ as (
    select id, created_at, status from onceward.messages where id > (select through from mark) order by id limit $2
), old as (
    select id, status from window_ where created_at < onceward.now() - $1::interval
), stripped as (
    update onceward.messages m set data = null, address = null, reason = null
      from old o where m.id = o.id and o.status in ('success', 'cancelled', 'failed')
    returning m.id
), spent as (
    delete from onceward.attempts a using stripped s where a.work_id = s.id
), moved as (
    insert into onceward.prune_marks (name, through) select 'messages', max(id) from old having max(id) is not null
    on conflict (name) do update set through = excluded.through
)
select count(*) from old
"""


async def strip_old(db: Database, *, keep: timedelta, at_once: int = 1000) -> int:
    """Dead letters and unknown ones stay as they are: somebody has yet to look at them."""
    return await db.fetchval(STRIP, keep, at_once)
