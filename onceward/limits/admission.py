"""Admission limits: a job takes a slot when it is created, or the request is refused at once.

A slot belongs to one item of work and is taken in the transaction that creates the work. The work holds the slot
exactly as long as it is unfinished, so no code has to release it and a crash cannot leak it. Work that has to wait for
long may `release` its slots and reserve them again. Execution limits, where the job
waits instead, are lanes: `job.in_lane(key, at_once=3, parent=..., parent_at_once=...)`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import structlog

from onceward.db import Connection, Database, Transaction
from onceward.errors import OncewardError
from onceward.statements import read_statement
from onceward.trust import audit
from onceward.trust.identity import Identity
from onceward.trust.metrics_events import record_metric

log = structlog.get_logger(__name__)

GLOBAL = "global"
"""The key of the limit for all organizations together."""
RETRY_AFTER_S = 5

HELD = read_statement("limits", "list_held")
RECONCILE = read_statement("limits", "free_abandoned_slots")
SET = read_statement("limits", "set_limit")
FORGET = "delete from onceward.limit_changes where changed_at < clock_timestamp() - interval '90 days'"


@dataclass(frozen=True, slots=True)
class Limit:
    """At most `at_most` unfinished items of work under this key. None: the current value in `onceward.limits`.

    Each organization has its own slots under a key. All organizations share a limit in `onceward.limits`.
    """

    key: str
    at_most: int | None = None

    def __post_init__(self) -> None:
        if not self.key or len(self.key) > 200:
            raise ValueError(f"a limit's key must have 1 to 200 characters, not {self.key!r}")
        if self.at_most is not None and not 1 <= self.at_most <= 10_000:
            raise ValueError(f"limit {self.key}: at_most must be between 1 and 10000, not {self.at_most}")


class LimitReached(OncewardError):
    """No slot is free, and none was reserved. HTTP routes answer 429."""

    def __init__(self, key: str, at_most: int, held: int, *, retry_after_s: int = RETRY_AFTER_S) -> None:
        super().__init__(f"limit {key} is reached: {held} of {at_most} slots are in use; retry in {retry_after_s} s")
        self.key = key
        self.at_most = at_most
        self.held = held
        self.retry_after_s = retry_after_s


@dataclass(frozen=True, slots=True)
class Held:
    """The slots of one limit in use. `organization_id` is None for a limit that all organizations share."""

    key: str
    organization_id: UUID | None
    held: int
    at_most: int | None
    oldest: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """What the `concurrency_limit_hit` of a refused request also records."""

    user_id: UUID | None = None
    subject: str | None = None
    """What the request was about, such as the id of an order."""
    metadata: Mapping[str, Any] = field(default_factory=dict[str, Any])


async def reserve(tx: Transaction, work_id: int, limits: Sequence[Limit]) -> None:
    """Take a slot under each limit for this work, or raise `LimitReached`. Call it where the work is created.

    The work must be unfinished. In a transaction of an organization, the work must belong to that organization.
    """
    # Sorted, the global limit last: all transactions lock in the same order, so they cannot deadlock.
    ordered = sorted(limits, key=lambda limit: (limit.key == GLOBAL, limit.key))
    row = await tx.fetchrow(
        "select * from onceward.limit_reserve($1, $2, $3)",
        work_id,
        [limit.key for limit in ordered],
        [limit.at_most for limit in ordered],
    )
    if row is not None and row["full_key"] is not None:
        raise LimitReached(row["full_key"], row["at_most"], row["held"])


async def release(tx: Transaction, work_id: int) -> int:
    """Free the slots of work that will wait, and return their number. It reserves them again to continue."""
    return await tx.fetchval("select onceward.limit_release($1)", work_id)


async def want(conn: Database | Connection | Transaction, key: str = GLOBAL) -> None:
    """Note that a slot was wanted and none was free. The global limit rises only for such demand."""
    await conn.execute("select onceward.limit_want($1)", key)


async def note_refusal(
    db: Database, refused: LimitReached, *, metadata: dict[str, Any] | None = None, refusal: Refusal | None = None
) -> None:
    """Record `concurrency_limit_hit` in system_metrics, on a new connection: the request's transaction was rolled back.

    The metadata say which limit was reached (`key`), how many jobs held it, and what the limit of the caller's key and
    the global limit are.
    """
    more = refusal or Refusal()
    await want(db, refused.key)
    details = {
        "key": refused.key,
        "limit": refused.at_most,
        "current_jobs": refused.held,
        "global_limit": await db.fetchval("select at_most from onceward.limits where name = $1", GLOBAL),
        **(metadata or {}),
        **more.metadata,
    }
    user_id = more.user_id or _uuid(details.get("user"))
    await record_metric(db, "concurrency_limit_hit", user_id=user_id, subject=more.subject, metadata=details)


def _uuid(text: Any) -> UUID | None:
    try:
        return UUID(str(text))
    except ValueError:
        return None


async def held(conn: Database | Connection, *, most: int = 100) -> list[Held]:
    """Return the keys with slots in use, most slots first."""
    return [Held(**dict(row)) for row in await conn.fetch(HELD, most)]


async def reconcile(conn: Database | Connection) -> int:
    """Delete the slots of ended work and return their number. They were free already; this keeps the table small.

    Changes of limits that are older than 90 days are deleted too.
    """
    rows = await conn.fetch(RECONCILE)
    await conn.execute(FORGET)
    if rows:
        log.info("limits.reconciled", deleted_slots=len(rows))
    return len(rows)


async def set_global(db: Database, at_most: int, *, actor: str | Identity) -> None:
    """Set the global limit and record it in the audit log. The adaptive limit continues from this value."""
    async with db.transaction(role="engine") as tx:
        # Locked before it is read, so that the history names the value that is replaced.
        await tx.execute("select from onceward.limits where name = $1 for update", GLOBAL)
        await tx.execute(SET, GLOBAL, at_most, "set by an operator")
        await audit.record(
            tx, "limit.set", entity_type="limit", entity_id=GLOBAL, actor=actor, changes={"at_most": at_most}
        )
