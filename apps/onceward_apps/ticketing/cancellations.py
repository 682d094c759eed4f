"""Cancel an event: its commit stops all sales, and a workflow refunds the orders."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from onceward import Tx
from onceward_apps.ticketing.errors import NotFound
from onceward_apps.ticketing.store import cancellations
from onceward_apps.ticketing.workflows import cancel_event


async def cancel(tx: Tx, event_id: UUID, *, reason: str, actor: str) -> Any:
    """Cancel the event and return the progress. A second call only returns the progress."""
    event = await cancellations.lock_event(tx, event_id)
    if event is None:
        raise NotFound(f"there is no event {event_id}")
    if event["cancelled_at"] is None:
        order = cancel_event.unique(f"event:{event_id}").attributes(event=str(event_id))
        await tx.start_workflow(order, event_id=event_id)
        await cancellations.cancel(tx, event_id, reason)
        await tx.publish(
            "event.cancelled",
            {
                "event_id": event_id,
                "organization_id": tx.organization,
                "name": event["name"],
                "reason": reason,
                "timestamp": await tx.fetchval("select onceward.now()"),
            },
            key=f"event:{event_id}:cancelled",
        )
        await tx.audit(
            "event_cancelled",
            entity_type="Event",
            entity_id=event_id,
            changes={"status": {"from": event["status"], "to": "cancelled"}},
            reason=reason,
            actor=actor,
        )
    return await cancellations.progress(tx, event_id)


async def progress(tx: Tx, event_id: UUID) -> Any:
    row = await cancellations.progress(tx, event_id)
    if row is None or row["cancelled_at"] is None:
        raise NotFound(f"there is no cancelled event {event_id}")
    return row
