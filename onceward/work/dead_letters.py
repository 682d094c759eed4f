"""Find, inspect, replay and discard dead letters of every kind of work. Replays and discards are audited."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from onceward.db import Database, Transaction
from onceward.errors import OncewardError
from onceward.statements import named, scoped
from onceward.trust import audit
from onceward.trust.identity import Identity
from onceward.windows import LAST, Window, walk
from onceward.work.statements import DEAD_LETTER_GROUPS, FIND_DEAD_LETTERS, HISTORY

DEFAULT_LIMIT = 100
AT_ONCE = 100
"""How many dead letters a transaction changes."""
PAGE = 1000
FIRST = "-- $upper $lower $limit\n"
"""Gives these parameters the numbers that `walk` expects."""
FIND = named(FIRST + FIND_DEAD_LETTERS)
LIST = scoped(FIND.text)
WINDOW = scoped("""
select w.id from onceward.work w
 where w.dead_reason is not null and w.id < $1 and w.id >= $2 and ($4::uuid is null or w.organization_id = $4)
 order by w.id desc offset $3 - 1 limit 1
""")
GROUPS = scoped(DEAD_LETTER_GROUPS)
GROUPED = 500
"""The most dead letters that a page or a request groups: the newest. The last error of each is read."""
WHY_NOT = {"gone": "it is no longer a dead letter", "taken": "newer work holds its unique key"}
"""Why a dead letter was left unchanged, by the answer of the SQL function."""


class NoFilter(OncewardError, ValueError):
    """A replay or discard needs a filter."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetterFilter:
    """Selects dead letters. A field that is None does not restrict the selection."""

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
    """The result of a replay or discard. `skipped` gives the reason for each dead letter that was left unchanged."""

    done: list[int] = field(default_factory=list[int])
    skipped: dict[int, str] = field(default_factory=dict[int, str])


@dataclass(frozen=True, slots=True)
class FoundLetters:
    """The dead letters of a page. A search for older ones continues below the id `next`; None: there are none."""

    letters: list[DeadLetter]
    next: int | None


AfterBatch = Callable[[Acted], bool]
"""Gets what is done so far, after each commit. False: stop."""


async def find(
    conn: Transaction | Database,
    filter: DeadLetterFilter,
    *,
    limit: int = DEFAULT_LIMIT,
    before: int | None = None,
) -> list[DeadLetter]:
    """Return the selected dead letters, newest first."""
    return (await search(conn, filter, limit=limit, before=before, most=None)).letters


async def search(
    conn: Transaction | Database,
    filter: DeadLetterFilter,
    *,
    limit: int = DEFAULT_LIMIT,
    before: int | None = None,
    most: int | None,
) -> FoundLetters:
    """Return a page of the selected dead letters, newest first. Examines `most` dead letters at most."""
    values = {name: getattr(filter, name) for name in DeadLetterFilter.__slots__}
    own, text = filter.organization, LIST.of(filter.organization)
    if filter.ids is not None:
        upper = LAST if before is None else before
        rows = await conn.fetch(text, *FIND.values(**values, upper=upper, lower=0, limit=limit))
        return FoundLetters([DeadLetter(**dict(row)) for row in rows], None)
    arguments = FIND.values(**values, upper=None, lower=None, limit=None)[3:]
    windows = (Window(WINDOW.of(own), (own,)),)
    found = await walk(conn, text, *arguments, windows=windows, want=limit, before=before, most=most)
    return FoundLetters([DeadLetter(**dict(row)) for row in found.rows], found.next)


async def groups(
    conn: Transaction | Database, *, organization: UUID | None = None, most: int | None = None
) -> list[dict[str, Any]]:
    """Count dead letters by task, reason and error, the largest group first: all, or the newest."""
    return [dict(row) for row in await conn.fetch(GROUPS.of(organization), organization, most)]


async def history(conn: Transaction | Database, id: int) -> list[dict[str, Any]]:
    """Return every attempt of one piece of work, oldest first."""
    return [dict(row) for row in await conn.fetch(HISTORY, id)]


async def pages(
    db: Database,
    filter: DeadLetterFilter,
    *,
    limit: int = DEFAULT_LIMIT,
    at_once: int = PAGE,
    before: int | None = None,
) -> AsyncGenerator[list[DeadLetter]]:
    """Yield up to `limit` of the selected dead letters in pages, newest first, so that not all are in memory at
    once."""
    while limit > 0:
        letters = await find(db, filter, limit=min(limit, at_once), before=before)
        if not letters:
            return
        yield letters
        limit -= len(letters)
        before = letters[-1].id


async def replay(
    db: Database,
    filter: DeadLetterFilter,
    *,
    actor: str | Identity,
    reason: str,
    limit: int = DEFAULT_LIMIT,
    after_batch: AfterBatch | None = None,
) -> Acted:
    """Make dead letters due again. They keep their ids, so effects that are already committed do not happen twice."""
    return await _act(db, "replay", filter, actor=actor, reason=reason, limit=limit, after_batch=after_batch)


async def discard(
    db: Database,
    filter: DeadLetterFilter,
    *,
    actor: str | Identity,
    reason: str,
    limit: int = DEFAULT_LIMIT,
    after_batch: AfterBatch | None = None,
) -> Acted:
    """Remove dead letters from the list for good."""
    return await _act(db, "discard", filter, actor=actor, reason=reason, limit=limit, after_batch=after_batch)


async def _act(
    db: Database,
    verb: str,
    filter: DeadLetterFilter,
    *,
    actor: str | Identity,
    reason: str,
    limit: int,
    after_batch: AfterBatch | None,
) -> Acted:
    if filter.empty:
        raise NoFilter(f"{verb} needs a filter: ids, kind, task, provider, reason, error, since, until or organization")
    if not reason.strip():
        raise ValueError(f"{verb} needs a reason, which is written to the audit log")
    acted = Acted()
    async for letters in pages(db, filter, limit=limit, at_once=AT_ONCE):
        async with db.transaction(role="engine") as tx:
            batch = await _act_on(tx, verb, letters, actor=actor, reason=reason)
        # Counted after the commit: an interrupted batch has changed nothing.
        acted.done.extend(batch.done)
        acted.skipped.update(batch.skipped)
        if after_batch is not None and not after_batch(acted):
            break
    return acted


async def _act_on(
    tx: Transaction, verb: str, letters: Sequence[DeadLetter], *, actor: str | Identity, reason: str
) -> Acted:
    acted = Acted()
    await tx.execute(
        "select set_config('onceward.operator', $1, true)", actor if isinstance(actor, str) else actor.actor
    )
    ids = sorted(letter.id for letter in letters)
    rows = await tx.fetch(f"select l.id, onceward.{verb}(l.id) as state from unnest($1::bigint[]) as l (id)", ids)
    states = {row["id"]: row["state"] for row in rows}
    changed = [letter for letter in letters if states[letter.id] not in WHY_NOT]
    acted.skipped.update({id: WHY_NOT[states[id]] for id in ids if states[id] in WHY_NOT})
    await audit.record_each(
        tx,
        f"dead_letter.{verb}",
        [
            audit.Entry(letter.organization_id, letter.kind, letter.id, {"task": letter.task, "reason": letter.reason})
            for letter in changed
        ],
        actor=actor,
        reason=reason,
    )
    acted.done.extend(sorted(letter.id for letter in changed))
    return acted
