"""Apply the delivery reports among the received events to their messages, before the app's own handler runs."""

from __future__ import annotations

from typing import Any

from onceward.inbox.event import StoredEvent
from onceward.messages import reports
from onceward.tx import Tx
from onceward.work import Claimed


async def apply_report(work: Claimed, tx: Tx | None) -> Any:
    """Apply the report in an event and return its result. Other events return None and cost nothing.

    A handler without `tx` has no transaction: the report is then committed before the handler runs.
    """
    event: StoredEvent = work.body
    if not reports.is_report(event.provider, event.type):
        return None
    if tx is not None:
        return await _apply(event, tx)
    async with work.db.acquire() as conn, work.open_tx(conn, work) as own:
        return await _apply(event, own)


async def _apply(event: StoredEvent, tx: Tx) -> Any:
    report = reports.read_report(event.provider, event.type, event.payload)
    hooks = tx.engine.registry.message_hooks
    return await reports.apply_report(tx, report, received_at=event.received_at, hooks=hooks)
