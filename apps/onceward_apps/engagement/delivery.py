"""Send what is queued.

Workers do this all the time; `process_message_queue` does it in this process until nothing is due.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from onceward import Engine
from onceward.work import Worker, WorkerOptions

QUEUES = ["message.whatsapp", "message.whatsapp.own"]
PAUSE_S = 0.05

WAITING = """
select count(*) from onceward.work w
 where w.queue = any($1) and w.dead_reason is null and (w.lease is not null or w.sort_at <= onceward.now() + interval '10 seconds')
"""
PARKED = "select parked_until > clock_timestamp() from onceward.queues where name = 'message.whatsapp'"
COUNTS = """
select count(*) filter (where m.status = 'success') as sent,
       count(*) filter (where m.status in ('dead_letter', 'failed')) as failed,
       count(*) filter (where m.status in ('pending', 'processing')) as pending
  from onceward.messages m where m.channel = 'whatsapp' and m.id = any($1::bigint[])
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessResult:
    """What became of the messages that were due."""

    processed: int
    sent: int
    failed: int
    pending: int
    """Messages that wait, because the channel is parked or other workers are sending them."""


async def process_message_queue(engine: Engine, *, timeout_s: float = 3600.0) -> ProcessResult:
    """Send all WhatsApp messages that are due, with retries, then return.

    Other workers may help; nothing is sent twice.
    """
    rows = await engine.db.fetch(
        "select id from onceward.work where queue = any($1) and dead_reason is null and sort_at <= onceward.now()",
        QUEUES,
    )
    ids = [row["id"] for row in rows]
    if not ids:
        return ProcessResult(processed=0, sent=0, failed=0, pending=0)
    options = WorkerOptions(only_queues=QUEUES, concurrency=4, poll_s=0.1)
    worker = Worker(engine.db, engine.registry, engine.waker, options=options, open_tx=engine.open_tx)
    await worker.start()
    try:
        async with asyncio.timeout(timeout_s):
            while await engine.db.fetchval(WAITING, QUEUES) and not await engine.db.fetchval(PARKED):
                await asyncio.sleep(PAUSE_S)
    finally:
        await worker.stop()
    row = await engine.db.fetchrow(COUNTS, ids)
    assert row is not None
    return ProcessResult(processed=len(ids), sent=row["sent"], failed=row["failed"], pending=row["pending"])
