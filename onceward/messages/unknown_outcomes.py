"""Record what an operator found out about messages whose outcome is unknown: one message, or all that match a
filter."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from onceward.db import Database, Transaction
from onceward.messages.lines import own_secrets
from onceward.messages.message_queue import task_of
from onceward.statements import read_statement
from onceward.trust import record

SENT = read_statement("messages", "mark_sent")
RESEND = read_statement("messages", "resend_message")
LIST = read_statement("messages", "list_unknown")
AT_ONCE = 200

Verdict = Literal["sent", "resend"]


@dataclass(frozen=True, slots=True, kw_only=True)
class UnknownFilter:
    """Which messages with an unknown outcome. `since` and `until` compare the time when the send began."""

    ids: Sequence[int] | None = None
    channel: str | None = None
    template: str | None = None
    organization: UUID | None = None
    since: datetime | None = None
    until: datetime | None = None

    @property
    def is_empty(self) -> bool:
        return not self.ids and not any((self.channel, self.template, self.organization, self.since, self.until))


@dataclass(slots=True)
class Resolved:
    """The ids of the messages that were resolved, and of those that somebody else resolved meanwhile."""

    done: list[int] = field(default_factory=list[int])
    skipped: list[int] = field(default_factory=list[int])


async def resolve(tx: Transaction, id: int, verdict: Verdict, *, by: str, reason: str) -> bool:
    """Record what an operator found out about an unknown message. Return False if the message is not unknown."""
    row = await tx.fetchrow("select channel, organization_id from onceward.messages where id = $1", id)
    if row is None:
        return False
    if verdict == "sent":
        resolved = await tx.fetchval(SENT, id)
    else:
        resolved = await tx.fetchval(RESEND, id, task_of(row["channel"]), own_secrets(row["channel"]))
    if resolved is None:
        return False
    await record(
        tx,
        f"message.{verdict}",
        entity_type="message",
        entity_id=id,
        actor=by,
        reason=reason,
        organization=row["organization_id"],
    )
    return True


async def unknown_messages(db: Database, filter: UnknownFilter, *, limit: int) -> AsyncGenerator[list[dict[str, Any]]]:
    """Yield the messages with an unknown outcome that match, page by page."""
    after = 0
    while limit > 0:
        rows = await db.fetch(
            LIST,
            after,
            filter.ids or None,
            filter.channel,
            filter.template,
            filter.organization,
            filter.since,
            filter.until,
            min(limit, AT_ONCE),
        )
        if not rows:
            return
        after, limit = rows[-1]["id"], limit - len(rows)
        yield [dict(row) for row in rows]


async def resolve_all(
    db: Database,
    filter: UnknownFilter,
    verdict: Verdict,
    *,
    by: str,
    reason: str,
    limit: int,
    after_batch: Callable[[Resolved], bool] = lambda _: True,
) -> Resolved:
    """Resolve all messages that match, in batches that commit one by one. `after_batch` returns False to stop."""
    if filter.is_empty:
        raise ValueError("resolve needs a filter: ids, channel, template, organization, since or until")
    if not reason.strip():
        raise ValueError("resolve needs a reason, which is written to the audit log")
    resolved = Resolved()
    async for messages in unknown_messages(db, filter, limit=limit):
        batch = Resolved()
        async with db.transaction(role="engine") as tx:
            for message in messages:
                done = await resolve(tx, message["id"], verdict, by=by, reason=reason)
                (batch.done if done else batch.skipped).append(message["id"])
        # Counted after the commit: an interrupted batch has changed nothing.
        resolved.done.extend(batch.done)
        resolved.skipped.extend(batch.skipped)
        if not after_batch(resolved):
            break
    return resolved
