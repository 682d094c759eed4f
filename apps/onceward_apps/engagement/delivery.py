"""Wait until the workers have sent what this app has queued.

Workers send all the time, in turn with the messages of other apps that use the same account. `process_message_queue`
sends nothing itself: it waits for the messages of engagement and leaves those of others alone.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass

from onceward import Engine
from onceward_apps.engagement.model import CAMPAIGN_TEMPLATES

PAUSE_S = 0.05
TEMPLATES = [name for names in CAMPAIGN_TEMPLATES.values() for name in names]

DUE = """
select w.id from onceward.work w join onceward.messages m on m.id = w.id
 where w.kind = 'message' and m.template = any($1) and w.dead_reason is null and w.sort_at <= onceward.now()
"""
# A message that failed once is due again within seconds.
WAITING = """
select count(*) from onceward.work w
 where w.id = any($1::bigint[]) and w.dead_reason is null
   and (w.lease is not null or w.sort_at <= onceward.now() + interval '10 seconds')
   and not exists (select from onceward.queues q where q.name = w.queue and q.parked_until > clock_timestamp())
"""
COUNTS = """
select count(*) filter (where m.status = 'success') as sent,
       count(*) filter (where m.status in ('dead_letter', 'failed')) as failed,
       count(*) filter (where m.status in ('pending', 'processing')) as pending
  from onceward.messages m where m.id = any($1::bigint[])
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessResult:
    """What became of the messages that were due."""

    processed: int
    sent: int
    failed: int
    pending: int
    """Messages that wait: the channel is parked, or the time is over."""


async def process_message_queue(engine: Engine, *, timeout_s: float = 3600.0) -> ProcessResult:
    """Wait until workers have sent all messages of engagement that are due now, with their retries."""
    ids = [row["id"] for row in await engine.db.fetch(DUE, TEMPLATES)]
    if not ids:
        return ProcessResult(processed=0, sent=0, failed=0, pending=0)
    with suppress(TimeoutError):  # the result says how many are pending
        async with asyncio.timeout(timeout_s):
            while await engine.db.fetchval(WAITING, ids):
                await asyncio.sleep(PAUSE_S)
    row = await engine.db.fetchrow(COUNTS, ids)
    assert row is not None
    return ProcessResult(processed=len(ids), sent=row["sent"], failed=row["failed"], pending=row["pending"])
