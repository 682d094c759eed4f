"""Tell the hooks of an app how a delivery ended, in the commit of its outcome."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from onceward.db import Transaction
from onceward.work import EndOutcome, JobEnd


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryEnd:
    """How the delivery of one published event to one endpoint ended. A resent delivery ends again."""

    id: int
    event: int
    """The id of the published event, as in `Published.id`."""
    type: str
    endpoint: UUID
    organization: UUID | None
    outcome: EndOutcome
    reason: str | None
    error: str | None = field(repr=False)
    attempts: int


DeliveryHook = Callable[[Any, DeliveryEnd], Awaitable[Any]]


def delivery_end_hook(hooks: Sequence[DeliveryHook]) -> Callable[[Transaction, JobEnd], Awaitable[None]] | None:
    """Return the function that runs at the end of a delivery, or None if there is no hook."""
    if not hooks:
        return None

    async def ended(tx: Transaction, end: JobEnd) -> None:
        delivery = DeliveryEnd(
            id=end.id,
            event=end.arguments["event"],
            type=end.arguments["type"],
            endpoint=UUID(end.arguments["endpoint"]),
            organization=end.organization,
            outcome=end.outcome,
            reason=end.reason,
            error=end.error,
            attempts=end.attempts,
        )
        for hook in hooks:
            await hook(tx, delivery)

    return ended
