"""Move users between states. A move, its audit entry, its analytics event and the cancelled goodbye are one commit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from uuid import UUID

from onceward import Tx
from onceward_apps.engagement import metrics
from onceward_apps.engagement.app import settings
from onceward_apps.engagement.jobs import capture_transitions
from onceward_apps.engagement.model import State, Trigger
from onceward_apps.engagement.store import states
from onceward_apps.engagement.store.states import Due, Moved, Times


def times() -> Times:
    from datetime import timedelta

    configured = settings()
    return Times(
        inactivity=configured.inactivity,
        answer=configured.answer_time,
        remind=timedelta(days=configured.remind_days),
    )


async def transition_state(tx: Tx, user_id: UUID, trigger: Trigger) -> State | None:
    """Apply a trigger to one user, and return the new state, or None if the trigger changes nothing."""
    moved = await transition_many(tx, trigger, [user_id])
    return moved[0].to_state if moved else None


async def transition_many(
    tx: Tx,
    trigger: Trigger,
    users: Sequence[UUID],
    *,
    due: Due = "any",
    keys: Sequence[str | None] | None = None,
    held_out: Sequence[bool] | None = None,
) -> list[Moved]:
    """Apply a trigger to many users in a few statements, and return those who moved."""
    moved = await states.move(tx, trigger, users, times(), due=due, keys=keys, held_out=held_out)
    await record(tx, trigger, moved)
    return moved


async def record(tx: Tx, trigger: Trigger, moved: Sequence[Moved]) -> None:
    """Write what follows from moves: audit entries, an analytics job, and the end of a goodbye that is still queued."""
    if not moved:
        return
    await tx.audit_many(
        "engagement_state_changed",
        entity_type="EngagementUser",
        changes={each.user_id: {"state": [each.from_state, each.to_state], "trigger": trigger} for each in moved},
    )
    await tx.enqueue(capture_transitions, transitions=[each.id for each in moved])
    if trigger != "goodbye_timeout":
        waiting = [each.goodbye_key for each in moved if each.from_state == "goodbye_sent" and each.goodbye_key]
        if waiting:
            await tx.cancel_messages(waiting, reason=trigger)
    moves = Counter((each.from_state, each.to_state) for each in moved)
    tx.after_commit(lambda: _count(moves, trigger))


def _count(moves: Counter[tuple[str, str]], trigger: Trigger) -> None:
    for (before, after), users in moves.items():
        metrics.TRANSITIONS.labels(before, after, trigger).inc(users)
