"""Replay events: handle them again under the same event id. Each replay is audited in the same transaction.

Dead letters, failed events and unhandled events keep their row. An event that succeeded runs again only as a new event,
caused by the old one, and only with a reason for the audit log.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from onceward.db import Database, Transaction
from onceward.errors import OncewardError
from onceward.inbox.event_search import DEFAULT_LIMIT, EventFilter, FoundEvents, search
from onceward.statements import read_statement
from onceward.trust import Identity, record

AGAIN = read_statement("inbox", "requeue_event")
COPY = read_statement("inbox", "copy_event")


class NoEventFilter(OncewardError, ValueError):
    """A replay needs at least one filter, so that nobody replays everything by accident."""


@dataclass(frozen=True, slots=True)
class Replayed:
    """The result of a replay. `skipped` maps each event that was not replayed to the reason."""

    done: list[int] = field(default_factory=list[int])
    skipped: dict[int, str] = field(default_factory=dict[int, str])


async def replay(
    db: Database,
    criteria: EventFilter,
    *,
    actor: str | Identity,
    reason: str,
    limit: int = DEFAULT_LIMIT,
    as_new: bool = False,
    dry_run: bool = False,
) -> Replayed:
    """Make events due again, oldest first. A dry run only returns which events would be replayed."""
    if criteria.empty:
        raise NoEventFilter("a replay needs an id or a filter: source, type, since, until or error")
    if as_new and not reason.strip():
        raise ValueError("a replay as a new event needs a reason for the audit log")
    done = Replayed()
    async with db.transaction(role="engine") as tx:
        await tx.execute("select set_config('onceward.operator', $1, true)", _name(actor))
        for event in reversed((await search(tx, criteria, limit=limit)).events):
            why = _why_not(event, criteria, as_new=as_new)
            if why is not None:
                done.skipped[event.seq] = why
                continue
            if dry_run:
                done.done.append(event.seq)
                continue
            seq = await _again(tx, event, actor=actor, reason=reason, as_new=as_new)
            if seq is None:
                done.skipped[event.seq] = "another operator has just replayed it, or its body was pruned at this moment"
            else:
                done.done.append(seq)
    return done


def _why_not(event: FoundEvents, criteria: EventFilter, *, as_new: bool) -> str | None:
    if event.pruned:
        return "its body was pruned: ask the sender to send the event again"
    if as_new:
        return None if event.status == "success" else f"its status is {event.status}: replay it without `as new`"
    if event.status in ("dead_letter", "failed") or (event.status == "success" and criteria.unhandled):
        return None
    if event.status == "success":
        return "it succeeded: to run it again, replay it as a new event (as new)"
    return f"its status is {event.status}: it will run without a replay"


async def _again(
    tx: Transaction, event: FoundEvents, *, actor: str | Identity, reason: str, as_new: bool
) -> int | None:
    seq = event.seq
    if as_new:
        seq = await tx.fetchval(COPY, event.seq)
    elif not await tx.fetch(AGAIN, event.seq, event.status):
        return None
    await record(
        tx,
        "event.replayed",
        entity_type="event",
        entity_id=event.seq,
        metadata={"event_id": event.event_id, "was": event.status, "error": event.error}
        | ({"as": seq} if as_new else {}),
        actor=actor,
        reason=reason or None,
        organization=event.organization_id,
    )
    return seq


def _name(actor: str | Identity) -> str:
    return actor if isinstance(actor, str) else actor.actor
