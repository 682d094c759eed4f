"""The jobs of the machine by name, and how they are enqueued."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from onceward.work import Item, Options, insert

QUEUE = "payments"
CAPTURE = "payments.capture"
CLOSE = "payments.close"
REFUND = "payments.refund"
ASK = "payments.ask"
LIST = "payments.list"
END_PLAN = "payments.end_plan"
CHECK = "payments.check"
BATCH = "payments.refund_batch"


async def enqueue(
    tx: Any,
    task: str,
    arguments: dict[str, Any],
    *,
    unique: str,
    run_at: datetime | None = None,
    delay: timedelta | None = None,
) -> None:
    """Enqueue a job of the machine for the organization of the transaction. An unfinished one with this key is
    enough."""
    options = Options(unique_key=unique, on_conflict="ignore", run_at=run_at, delay=delay)
    caused_by = None if tx.cause is None else tx.cause.id
    text = json.dumps(arguments, default=str)
    await insert(tx.conn, [Item(task, text, QUEUE, options, tx.organization, caused_by)])
    engine = getattr(tx, "engine", None)
    if engine is not None:
        tx.after_commit(partial(engine.waker.wake, QUEUE))
