"""Apply what the engine itself understands of the received events, before the app's own handler runs.

Delivery reports go to their messages, and events about our account at a service change its state.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from onceward.inbox.event import StoredEvent
from onceward.messages import reports, service_states
from onceward.tx import Tx
from onceward.work import Claimed

REPORT_BATCH = 100
"""How many delivery reports share a commit. A backlog of them is long: a service may send five for each message."""


async def apply_report(work: Claimed, tx: Tx | None) -> Any:
    """Apply the report in an event and return its result. Other events return None and cost nothing.

    A handler without `tx` has no transaction: the report is then committed before the handler runs.
    """
    event: StoredEvent = work.body
    is_about_account = service_states.is_account_event(event.provider, event.type)
    if not is_about_account and not reports.is_report(event.provider, event.type):
        return None
    if tx is not None:
        return (await _apply([event], tx))[0]
    async with work.db.acquire() as conn, work.open_tx(conn, work) as own:
        return (await _apply([event], own))[0]


async def apply_reports(works: Sequence[Claimed], tx: Tx) -> list[Any]:
    """Apply the reports in several events in one go, and return the result of each."""
    return await _apply([work.body for work in works], tx)


async def _apply(events: Sequence[StoredEvent], tx: Tx) -> list[Any]:
    """Apply events of one type."""
    if events and service_states.is_account_event(events[0].provider, events[0].type):
        return [
            await service_states.apply_change(
                tx, each.provider, each.type, each.payload, each.received_at, templates=tx.engine.templates
            )
            for each in events
        ]
    received = [(reports.read_report(each.provider, each.type, each.payload), each.received_at) for each in events]
    return await reports.apply_reports(tx, received, hooks=tx.engine.registry.message_hooks)
