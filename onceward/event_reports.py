"""Apply what the engine itself understands of the received events, before the app's own handler runs.

Delivery reports go to their messages, events about our account at a service change its state, and STOP, START and HELP
of a person are obeyed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from onceward.inbox.event import StoredEvent
from onceward.messages import reports, service_states
from onceward.messages.inbound import inbound_texts, is_inbound_text, obey_reply
from onceward.tx import Tx
from onceward.work import Claimed

REPORT_BATCH = 100
"""How many delivery reports share a commit. A backlog of them is long: a service may send five for each message."""


async def apply_report(work: Claimed, tx: Tx | None) -> Any:
    """Apply the report in an event and return its result. Other events return None and cost nothing.

    A handler without `tx` has no transaction: the report is then committed before the handler runs.
    """
    return await _apply_one(work, tx) if _is_report(work.body) else None


async def apply_report_and_reply(work: Claimed, tx: Tx | None) -> Any:
    """Do the same, and obey STOP, START and HELP in the text of a person."""
    event: StoredEvent = work.body
    understood = _is_report(event) or is_inbound_text(event.provider, event.type)
    return await _apply_one(work, tx) if understood else None


def _is_report(event: StoredEvent) -> bool:
    return service_states.is_account_event(event.provider, event.type) or reports.is_report(event.provider, event.type)


async def _apply_one(work: Claimed, tx: Tx | None) -> Any:
    event: StoredEvent = work.body
    if tx is not None:
        return (await _apply([event], tx))[0]
    async with work.db.acquire() as conn, work.open_tx(conn, work) as own:
        return (await _apply([event], own))[0]


async def apply_reports(works: Sequence[Claimed], tx: Tx) -> list[Any]:
    """Apply the reports in several events in one go, and return the result of each."""
    return await _apply([work.body for work in works], tx)


async def _apply(events: Sequence[StoredEvent], tx: Tx) -> list[Any]:
    """Apply events of one type."""
    if events and is_inbound_text(events[0].provider, events[0].type):
        texts = inbound_texts()[events[0].provider]
        return [
            await obey_reply(
                tx,
                None if each.payload is None else texts.read(each.payload, each.received_at),
                event=each.seq,
                templates=tx.engine.templates,
                waker=tx.engine.waker,
            )
            for each in events
        ]
    if events and service_states.is_account_event(events[0].provider, events[0].type):
        return [
            await service_states.apply_change(
                tx, each.provider, each.type, each.payload, each.received_at, templates=tx.engine.templates
            )
            for each in events
        ]
    received = [(reports.read_report(each.provider, each.type, each.payload), each.received_at) for each in events]
    return await reports.apply_reports(tx, received, hooks=tx.engine.registry.message_hooks)
