"""Routes: the events of a source in mode `forward` are sent to the endpoints that name the source.

The event is received once, and published in the commit that ends it; each endpoint then gets it at least once, with its
own filter, transformation, limits and authentication.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from onceward.db import Transaction
from onceward.outbox.publishing import QUEUE
from onceward.work import EVENTS, AppRegistry, Claimed, Task, Waker

FORWARD = "select onceward.forward_event($1, $2)"
TASK = "inbox.forward"


def install_forwarding(registry: AppRegistry, waker: Waker | None) -> None:
    """Let workers that use this registry forward events."""

    async def forward(work: Claimed, tx: Transaction) -> dict[str, Any]:
        trace = None if work.body.context is None else work.body.context["trace"]
        deliveries: int = await tx.fetchval(FORWARD, work.id, trace)
        if waker is not None and deliveries:
            tx.after_commit(partial(waker.wake, QUEUE))
        return {"deliveries": deliveries}

    registry.tasks[TASK] = Task(name=TASK, run=forward, kind="event", queue="events", retry=EVENTS, transactional=True)
