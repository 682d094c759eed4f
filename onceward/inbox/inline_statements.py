"""The statements with which a request stores its event, handles it and records the result in one transaction."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from onceward.db import Transaction, literal
from onceward.inbox.duplicate_waits import WAIT_S
from onceward.inbox.event import StoredEvent
from onceward.inbox.event_numbers import Numbered
from onceward.inbox.handlers import QUEUE, enqueue_followers
from onceward.inbox.routing import AS_RAW, RoutedEvent
from onceward.work import Claimed
from onceward.work.claim import new_lease
from onceward.work.settle import result_json

PARAMETERS = ", ".join(f"${n}" for n in range(1, 15))
RECEIVE = "select onceward.receive_inline({})"
QUEUE_FAILED = "select onceward.queue_failed_inline($1, $2, $3, $4, $5)"
MOST_LITERAL_BYTES = 8 << 10
"""A larger body is sent as a parameter, in a round trip of its own: parsing it as SQL would cost more."""
WAIT = f"set local lock_timeout = {int(WAIT_S * 1000)}"
SAVEPOINT = "set local lock_timeout = 0; savepoint handler"
WAIT_IN_GROUP = "set local lock_timeout = 100"
"""An event that others wait for is not waited for: its group is given up, and it is handled alone."""
IS_STORED = "select where current_setting('onceward.stored_event', true) = '{}'"
STORED = "SELECT 1"
"""The command tag of `IS_STORED` for a new event. A script returns no rows, only the tag of its last statement."""
CHECK_NOW = "set constraints all immediate"
"""Check deferred constraints before the commit, while the event can still be kept if one of them fails."""


def held_by_request(numbered: Numbered, id: UUID, routed: RoutedEvent, payload: Any) -> Claimed:
    """Return the event as work that this request holds. It exists only in this process, unless the handler fails."""
    shared, source = routed.shared, routed.shared.source
    no_headers: dict[str, str] = {}
    names = (source.webhook_id, routed.event_id, source.provider.name, shared.type)
    work = Claimed(new_lease(), numbered.seq, "event", shared.task, source.organization)
    work.body = StoredEvent(
        numbered.seq, id, *names, payload, no_headers, source.organization, numbered.received_at, source.name
    )
    return work


def is_literal(routed: RoutedEvent) -> bool:
    """Return whether one script stores the event: it is small, and no other handler follows."""
    return not routed.shared.followers and len(routed.raw or b"") + len(routed.payload or "") <= MOST_LITERAL_BYTES


async def insert_event(tx: Transaction, work: Claimed, id: UUID, routed: RoutedEvent) -> bool:
    """Open the handler's transaction with the new event. Return False, with no transaction open, for a duplicate."""
    shared, values = routed.shared, values_of(work, id, routed)
    if is_literal(routed):
        received = RECEIVE.format(", ".join(map(literal, values)))
        if await tx.open(f"{WAIT}; {received}; {SAVEPOINT}", IS_STORED.format(work.id)) == STORED:
            return True
        await tx.rollback()
        return False
    async with Transaction(tx.conn, role="engine", lock_timeout_s=WAIT_S) as locked:
        is_new: bool = await locked.fetchval(RECEIVE.format(PARAMETERS), *values)
        if is_new:
            await enqueue_followers(work, shared.followers, locked)
            await tx.take_over(locked, SAVEPOINT)
    return is_new


async def join_event(tx: Transaction, before: Transaction, work: Claimed, id: UUID, routed: RoutedEvent) -> bool:
    """Continue the open transaction of another request with the new event.

    Return False for a duplicate, which stores nothing.
    """
    received = RECEIVE.format(", ".join(map(literal, values_of(work, id, routed))))
    first = f"{WAIT_IN_GROUP}; {received}; set local lock_timeout = 0"
    return await tx.join(before, first=first, last=IS_STORED.format(work.id)) == STORED


def values_of(work: Claimed, id: UUID, routed: RoutedEvent) -> tuple[Any, ...]:
    """Return the arguments of `receive_inline`."""
    shared, source = routed.shared, routed.shared.source
    return (
        *(work.id, work.body.received_at, id, source.webhook_id, routed.event_id, source.organization),
        *(source.provider.name, shared.type, routed.payload or None, routed.payload == AS_RAW, routed.raw),
        *(shared.headers, routed.signature, source.stored_route),
    )


async def queue_failed(tx: Transaction, work: Claimed) -> None:
    await tx.execute(QUEUE_FAILED, work.id, work.organization, work.task, QUEUE, work.lease)


def success_of(work: Claimed, value: Any, *, elapsed_s: float, shared: int | None = None) -> str:
    """Return the statement that records the success of an event that this transaction has stored."""
    values = (work.id, work.organization, work.task, elapsed_s, result_json(value), shared)
    return f"select onceward.succeed_inline({', '.join(map(literal, values))})"
