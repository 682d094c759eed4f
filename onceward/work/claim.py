"""Claim due work with a lease that the worker creates before the claim."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from operator import itemgetter

from onceward.db import Connection
from onceward.work.claimed import Claimed
from onceward.work.statements import CLAIM, CLAIM_LANES, RELEASE

BEGINNING = datetime(1, 1, 1, tzinfo=UTC)

WORK_COLUMNS = (
    "id",
    "kind",
    "task",
    "organization_id",
    "attempts",
    "crashes",
    "max_attempts",
    "bundle",
    "lane",
    "args",
    "caused_by",
    "tags",
    "context",
)
"""The first columns of both claims, in the order of the parameters of `Claimed`. They are read by position, for speed."""
_BY_TIME = itemgetter("sort_at", "id")


def new_lease() -> int:
    """Return a random 63-bit number, so that no two claims share a lease."""
    return secrets.randbits(63) or 1


@dataclass(frozen=True, slots=True)
class ClaimQuery:
    """The work that one claim returned, and the latest due time in it (`reached`)."""

    lease: int
    work: list[Claimed]
    reached: datetime
    lanes: bool | None = None
    """Whether work waits in lanes. None: the claim found nothing, so it does not know."""
    suspect: bool = False
    """Whether one of the rows, in addition to those asked for, is a suspect."""


@dataclass(frozen=True, slots=True)
class LaneClaim:
    """The work that one claim of lanes returned, and the lane after which the next claim starts (`cursor`)."""

    lease: int
    work: list[Claimed]
    cursor: str
    visited: int
    resume_s: float | None = None
    """Seconds until a skipped lane (not due, rate limit, open breaker) may run again."""
    plain: bool = False
    """Whether work outside lanes is due."""


async def claim(
    conn: Connection,
    *,
    queue: str,
    tasks: Sequence[str],
    most: int,
    lease: int,
    worker: int,
    mark: datetime = BEGINNING,
    suspect: bool = False,
) -> ClaimQuery:
    """Claim at most `most` rows of the queue that became due at `mark` or later; with `suspect` also one that two dead workers held."""
    rows = await conn.fetch(CLAIM, queue, mark, tasks, most, lease, worker, suspect)
    if not rows:
        return ClaimQuery(lease, [], mark)
    rows.sort(key=_BY_TIME)  # RETURNING does not keep the order of the select
    work = [Claimed(lease, *row[: len(WORK_COLUMNS)]) for row in rows]
    has_suspect = suspect and any(each.suspect for each in work)
    reached: datetime = rows[-1]["sort_at"]
    if has_suspect:  # it is claimed wherever it stands in the queue, so its time says nothing about the others
        reached = max((row["sort_at"] for row, each in zip(rows, work, strict=True) if not each.suspect), default=mark)
    return ClaimQuery(lease, work, reached, rows[0]["lanes"], has_suspect)


async def claim_lanes(
    conn: Connection,
    *,
    queue: str,
    tasks: Sequence[str],
    most: int,
    lease: int,
    worker: int,
    cursor: str,
    suspect: bool,
    together: Sequence[str] = (),
) -> LaneClaim:
    """Claim due work of the lanes after `cursor`, up to the limit of each lane.

    Of an ordered lane it is one row, or several rows of the tasks `together`: each has the one before it in `after`.
    """
    rows = await conn.fetch(CLAIM_LANES, queue, tasks, most, lease, worker, cursor, suspect, together)
    work = [Claimed(lease, *row[: len(WORK_COLUMNS)]) for row in rows if row["id"] is not None]
    if together:
        by_id = {each.id: each for each in work}
        for each, row in zip(work, rows, strict=False):
            each.after = by_id.get(row["follows"])
    first = rows[0]
    return LaneClaim(lease, work, first["last_lane"] or "", first["visited"], first["resume_s"], first["plain"])


async def release(conn: Connection, work: Sequence[Claimed]) -> None:
    """Release claimed work without counting an attempt."""
    if work:
        await conn.fetch(RELEASE, [each.id for each in work], list({each.lease for each in work}))
