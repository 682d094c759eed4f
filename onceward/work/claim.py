"""Claim due work with a lease that the worker creates before the claim."""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from operator import itemgetter

from asyncpg import Record

from onceward.db import Connection
from onceward.work.claimed import Claimed
from onceward.work.lane_turns import Lane, LanePlan, LanesTaken
from onceward.work.lines import NOBODY, Plan
from onceward.work.round import BEGINNING, Found, Line, Pick
from onceward.work.statements import CLAIM, CLAIM_LANES, FIND_LINES, NEWEST_LINES, RELEASE

NEWEST = 500
"""How many of the newest rows a look for lines reads at most."""
COMMITS_WITHIN = timedelta(milliseconds=100)
"""A look also reads rows that are older than the last look by this much: they may have been committed since then."""

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
"""The first columns of both claims, in the order of the parameters of `Claimed`. They are read by position, for
speed."""
_BY_TIME = itemgetter("sort_at", "id")
_BY_TURN = itemgetter(0)
BY_NAME = LanePlan()


def new_lease() -> int:
    """Return a random 63-bit number, so that no two claims share a lease."""
    return secrets.randbits(63) or 1


@dataclass(frozen=True, slots=True)
class ClaimQuery:
    """The work that one claim returned, and what it found in each line."""

    lease: int
    work: list[Claimed]
    found: dict[int, Found]
    lanes: bool | None = None
    """Whether work waits in lanes. None: the claim found nothing, so it does not know."""
    suspect: Claimed | None = None
    """The suspect, if the claim took one. Then it took nothing else."""


@dataclass(frozen=True, slots=True)
class LaneClaim:
    """The work that one claim of lanes returned, in the order in which it should start, and what it tells about
    turns."""

    lease: int
    work: list[Claimed]
    turns: LanesTaken
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
    plan: Plan | None = None,
    suspect: bool = False,
) -> ClaimQuery:
    """Claim at most `most` rows of the queue as `plan` says, by default the oldest.

    With `suspect` it claims one row that two dead workers held instead of them, if there is one.
    """
    picks, oldest = plan or Plan([Pick(NOBODY, BEGINNING, most)], BEGINNING)
    lines = [pick.line for pick in picks]
    marks, takes = [pick.mark for pick in picks], [pick.take for pick in picks]
    rows = await conn.fetch(CLAIM, queue, oldest, tasks, most, lease, worker, suspect, lines, marks, takes)
    if not rows:
        return ClaimQuery(lease, [], {})
    rows.sort(key=_BY_TIME)  # RETURNING does not keep the order of the select
    work = [Claimed(lease, *row[: len(WORK_COLUMNS)]) for row in rows]
    if suspect and work[0].suspect:
        return ClaimQuery(lease, work, {}, rows[0]["lanes"], work[0])
    if len(picks) == 1 and oldest is None:
        found = {lines[0]: Found(len(rows), rows[-1]["sort_at"])}
    else:
        found, work = _by_turns(rows, work)
    return ClaimQuery(lease, work, found, rows[0]["lanes"])


def _by_turns(rows: Sequence[Record], work: list[Claimed]) -> tuple[dict[int, Found], list[Claimed]]:
    """Return what the claim found in each line, and the work with the first row of every line before the second of
    any."""
    lines = [row["line"] for row in rows]
    reached = {line: row["sort_at"] for line, row in zip(lines, rows, strict=True)}
    found = {line: Found(count, reached[line]) for line, count in Counter(lines).items()}
    return found, _in_turn(lines, work)


async def find_lines(conn: Connection, queue: str) -> list[Record]:
    """Return all lines of the queue that have due work outside lanes: columns of `Line`, and the time `at` of the
    look."""
    return await conn.fetch(FIND_LINES, queue)


async def newest_lines(conn: Connection, queue: str, since: datetime) -> list[Record]:
    """Return the lines of the newest due work, with the columns of `find_lines`. `since` is the time of the last
    look."""
    return await conn.fetch(NEWEST_LINES, queue, since - COMMITS_WITHIN if since > BEGINNING else since, NEWEST)


def as_lines(rows: Sequence[Record]) -> list[Line]:
    return [Line(row["line"], row["organization_id"], row["weight"]) for row in rows]


async def claim_lanes(
    conn: Connection,
    *,
    queue: str,
    tasks: Sequence[str],
    most: int,
    lease: int,
    worker: int,
    suspect: bool,
    together: Sequence[str] = (),
    plan: LanePlan = BY_NAME,
) -> LaneClaim:
    """Claim due work of lanes as `plan` says, by default in the order of lines and names, up to the limit of each lane.

    Of an ordered lane it is one row, or several rows of the tasks `together`: each has the one before it in `after`.
    """
    values = CLAIM_LANES.values(
        queue=queue,
        tasks=tasks,
        most=most,
        lease=lease,
        worker=worker,
        suspect=suspect,
        together=together,
        fair=plan.fair,
        line=plan.at.line,
        lane=plan.at.lane,
        left=plan.left,
        mark_lines=[each.line for each in plan.marks],
        mark_lanes=[each.lane for each in plan.marks],
        missed_lines=[each.line for each in plan.missed],
        missed_lanes=[each.lane for each in plan.missed],
    )
    rows = await conn.fetch(CLAIM_LANES.text, *values)
    work = [Claimed(lease, *row[: len(WORK_COLUMNS)]) for row in rows if row["id"] is not None]
    if together:
        by_id = {each.id: each for each in work}
        for each, row in zip(work, rows, strict=False):
            each.after = by_id.get(row["follows"])
    said = rows[0]["claim"]
    marks, missed = _lanes(said["marks"]), _lanes(said["missed"])
    turns = LanesTaken(len(work), said["visited"], Lane(*said["at"]), said["left"], marks, missed)
    if work:
        work = _in_turn([row["line"] for row in rows], work)
    return LaneClaim(lease, work, turns, said["resume_s"], said["plain"])


def _lanes(found: Sequence[tuple[int, str]] | None) -> list[Lane]:
    return [Lane(line, name) for line, name in found or ()]


def _in_turn(lines: Sequence[int], work: list[Claimed]) -> list[Claimed]:
    """Return the work with the first row of every line before the second of any."""
    counts: Counter[int] = Counter()
    turns: list[int] = []
    for line in lines:
        turns.append(counts[line])
        counts[line] += 1
    return [each for _, each in sorted(zip(turns, work, strict=True), key=_BY_TURN)] if len(counts) > 1 else work


async def release(conn: Connection, work: Sequence[Claimed]) -> None:
    """Release claimed work without counting an attempt."""
    if work:
        await conn.fetch(RELEASE, [each.id for each in work], list({each.lease for each in work}))
