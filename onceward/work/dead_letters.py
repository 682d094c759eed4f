"""Dead letters of every kind of work: find them, look at them, replay or discard them. Each act is audited."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from onceward.db import Database, Transaction
from onceward.trust import audit
from onceward.trust.identity import Identity

DEFAULT_LIMIT = 100
AT_ONCE = 100

FIND = """
select w.id, w.kind, w.task, w.queue, w.organization_id, w.attempts + 1 as attempts, w.dead_reason as reason,
       w.dead_at, last.error
  from onceward.work w
  left join lateral (
      select a.error from onceward.attempts a where a.work_id = w.id order by a.finished_at desc limit 1
  ) last on true
 where w.dead_reason is not null
   and ($1::bigint[] is null or w.id = any($1))
   and ($2::text is null or w.kind = $2)
   and ($3::text is null or w.task = $3)
   and ($4::text is null or w.dead_reason = $4)
   and ($5::text is null or last.error ->> 'type' = $5)
   and ($6::timestamptz is null or w.dead_at >= $6)
   and ($7::timestamptz is null or w.dead_at < $7)
   and ($8::uuid is null or w.organization_id = $8)
   and ($9::text is null or w.task like replace(replace($9, '%', '\\%'), '_', '\\_') || '/%')
   and ($11::bigint is null or w.id < $11)
 order by w.id desc
 limit $10
"""

GROUPS = """
select w.kind, w.task, w.dead_reason as reason, last.error ->> 'type' as error, count(*) as count,
       min(w.dead_at) as first_at, max(w.dead_at) as last_at
  from onceward.work w
  left join lateral (
      select a.error from onceward.attempts a where a.work_id = w.id order by a.finished_at desc limit 1
  ) last on true
 where w.dead_reason is not null and ($1::uuid is null or w.organization_id = $1)
 group by 1, 2, 3, 4 order by count desc limit 200
"""

HISTORY = """
select number, outcome, worker, started_at, finished_at, result, error
  from onceward.attempts where work_id = $1 order by finished_at
"""


class NoFilter(ValueError):
    """Replaying or discarding everything must be said by naming something."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """Which dead letters; what is None does not matter."""

    ids: Sequence[int] | None = None
    kind: str | None = None
    task: str | None = None
    provider: str | None = None
    reason: str | None = None
    error: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    organization: UUID | None = None

    @property
    def empty(self) -> bool:
        return all(getattr(self, name) is None for name in self.__slots__)


@dataclass(frozen=True, slots=True)
class DeadLetter:
    id: int
    kind: str
    task: str
    queue: str
    organization_id: UUID | None
    attempts: int
    reason: str
    dead_at: datetime
    error: dict[str, Any] | None


@dataclass(frozen=True, slots=True)
class Acted:
    """What a replay or discard did. `skipped` says why for each that it left alone."""

    done: list[int] = field(default_factory=list[int])
    skipped: dict[int, str] = field(default_factory=dict[int, str])


async def find(
    conn: Transaction | Database, wanted: Filter, *, limit: int = DEFAULT_LIMIT, before: int | None = None
) -> list[DeadLetter]:
    """Newest first."""
    rows = await conn.fetch(
        FIND,
        wanted.ids,
        wanted.kind,
        wanted.task,
        wanted.reason,
        wanted.error,
        wanted.since,
        wanted.until,
        wanted.organization,
        wanted.provider,
        limit,
        before,
    )
    return [DeadLetter(**dict(row)) for row in rows]


async def groups(conn: Transaction | Database, *, organization: UUID | None = None) -> list[dict[str, Any]]:
    """How many of each: by task, reason and error, the largest first."""
    return [dict(row) for row in await conn.fetch(GROUPS, organization)]


async def history(conn: Transaction | Database, id: int) -> list[dict[str, Any]]:
    """Every attempt at one piece of work, oldest first."""
    return [dict(row) for row in await conn.fetch(HISTORY, id)]


async def replay(
    db: Database, wanted: Filter, *, actor: str | Identity, reason: str, limit: int = DEFAULT_LIMIT
) -> Acted:
    """Make dead letters due again, under their own ids, so that nothing that succeeded before happens twice."""
    return await _act(db, "replay", wanted, actor=actor, reason=reason, limit=limit)


async def discard(
    db: Database, wanted: Filter, *, actor: str | Identity, reason: str, limit: int = DEFAULT_LIMIT
) -> Acted:
    """Take dead letters off the list for good."""
    return await _act(db, "discard", wanted, actor=actor, reason=reason, limit=limit)


async def _act(db: Database, verb: str, wanted: Filter, *, actor: str | Identity, reason: str, limit: int) -> Acted:
    if wanted.empty:
        raise NoFilter(
            f"to {verb} needs a filter: ids, kind, task, provider, reason, error, since, until or organization"
        )
    if not reason.strip():
        raise ValueError(f"to {verb} needs a reason: it goes into the audit log")
    acted = Acted()
    found = await find(db, wanted, limit=limit)
    for start in range(0, len(found), AT_ONCE):
        async with db.transaction(role="engine") as tx:
            await tx.execute(
                "select set_config('onceward.operator', $1, true)", actor if isinstance(actor, str) else actor.actor
            )
            for letter in sorted(found[start : start + AT_ONCE], key=lambda each: each.id):
                said: str = await tx.fetchval(f"select onceward.{verb}($1)", letter.id)
                if said in ("gone", "taken"):
                    acted.skipped[letter.id] = (
                        "its unique key belongs to newer work" if said == "taken" else "no longer a dead letter"
                    )
                    continue
                await audit.record(
                    tx,
                    f"dead_letter.{verb}",
                    entity_type=letter.kind,
                    entity_id=letter.id,
                    actor=actor,
                    reason=reason,
                    organization=letter.organization_id,
                    metadata={"task": letter.task, "reason": letter.reason},
                )
                acted.done.append(letter.id)
    return acted
