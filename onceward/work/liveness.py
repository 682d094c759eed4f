"""Find work that should run and does not: due or claimed for a long time, although nothing paused it.

Every look reads by index: the oldest rows of each queue, some lanes, and what workers hold. It costs the same with ten
unfinished rows as with ten million. `onceward verify` and `doctor`, a metric and an alert report what it finds, by
reason:

| reason | |
|---|---|
| `no_worker` | no worker is alive |
| `no_queue` | no live worker serves the queue |
| `no_handler` | no live worker that serves the queue knows the task |
| `no_app` | an event of a type that nobody handles, and no worker of the app that could handle it is alive |
| `no_version` | the arguments of a job do not fit any running version of its task |
| `external` | the program that handles events of external sources does not claim them |
| `lane` | the lane is blocked: by work that holds its slot, by its first work, or by its breaker |
| `overtaken` | workers claim younger work of the queue, and leave this |
| `not_claimed` | a live worker could run it, and nothing of its queue runs |
| `claimed` | a live worker has held it for an hour without progress |
| `overdue` | its handler exceeds its timeout and cannot be stopped |
| `orphaned` | its worker is gone, and nobody has taken it back |
| `backlog` | the queue moves; there is more work than its workers can do. Not a fault, so `verify` does not report it |
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from asyncpg import Record

from onceward.db import Connection
from onceward.work.statements import HELD_LONG, LANES_AFTER, LONG_UNSERVED, MOVING_QUEUES, WAITING_LANES, WAITING_PLAIN

DUE_S = 300.0
"""Work that has been due for longer than this is examined."""
HELD_S = 3600.0
"""Claimed work without a checkpoint for longer than this makes no progress."""
ALIVE_S = 60.0
"""A worker whose last heartbeat is older than this is not alive.

Only reports compare the time; rescuers compare counters.
"""
ROWS = 200
LANES = 2000
EXTERNAL, EXTERNAL_JOBS = "external", "external:"
"""The queue of events of external sources, and the beginning of the names of queues of external jobs."""
NOW = """
select onceward.now() as now, abs(extract(epoch from onceward.now() - clock_timestamp())) < 60 as real
"""
WORKERS = "select queues, tasks from onceward.workers where beat_at > clock_timestamp() - make_interval(secs => $1)"


@dataclass(frozen=True, slots=True)
class Stranded:
    """Work of one queue, kind and task that does not run, and why.

    `count` is a lower bound; `age_s` is that of the oldest.
    """

    queue: str
    kind: str
    task: str
    reason: str
    count: int
    first_id: int | None
    age_s: float
    blocked_by: str | None = None

    @property
    def is_fault(self) -> bool:
        return self.reason != "backlog"

    def __str__(self) -> str:
        why = REASONS[self.reason].format(queue=self.queue, task=self.task, blocked_by=self.blocked_by)
        first = "" if self.first_id is None else f", first id {self.first_id}"
        return (
            f"{self.count} of {self.kind} {self.task} in queue {self.queue}{first}, for {_duration(self.age_s)}: {why}"
        )


REASONS: Mapping[str, str] = {
    "no_worker": "no worker is alive: start one",
    "no_queue": "no live worker serves queue {queue}: start one without ONCEWARD_QUEUES, or with this queue",
    "no_handler": "no live worker of this queue knows {task}: start a worker of the app that has it",
    "no_app": "no worker of the app that could handle it is alive: start one, or run `onceward sources assign`",
    "no_version": "its arguments do not fit the running version of {task}: start a worker of the newer version",
    "external": "no program claims it: is the worker in the other language running?",
    "lane": "its lane is blocked by {blocked_by}",
    "overtaken": "workers claim younger work of this queue first",
    "not_claimed": "a live worker could run it, and nothing of this queue runs: restart the workers",
    "claimed": "a live worker holds it and makes no progress: look at its log, then restart it",
    "overdue": "its handler exceeds its timeout and cannot be stopped: restart the worker",
    "orphaned": "its worker is gone and nobody has taken it back: start a worker",
    "backlog": "the queue moves; start more workers, or raise ONCEWARD_WORKER_CONCURRENCY",
}


@dataclass(frozen=True, slots=True)
class LanePosition:
    """Where the next look continues: after this lane."""

    queue: str = ""
    lane: str = ""


@dataclass(frozen=True, slots=True)
class Look:
    """The result of one look, and where the next one continues with the lanes."""

    stranded: list[Stranded]
    lanes: LanePosition


@dataclass(frozen=True, slots=True)
class Fleet:
    """The live workers, as (queues, tasks), and the latest due time of the work that they hold."""

    workers: Sequence[tuple[frozenset[str], frozenset[str]]]
    latest: Mapping[tuple[str, int], datetime]
    """Of work outside lanes, by queue and line: younger work of another organization overtakes nobody."""
    plain: frozenset[str]
    """The queues of which workers hold work outside lanes."""
    laned: frozenset[str]
    """The queues of which workers hold work in lanes."""

    def missing(self, queue: str, task: str) -> str | None:
        """Return why no worker can run work of this queue and task, or None if one can."""
        if queue == EXTERNAL or queue.startswith(EXTERNAL_JOBS):
            return "external"
        if not self.workers:
            return "no_worker"
        serving = [tasks for queues, tasks in self.workers if queue in queues]
        if not serving:
            return "no_queue"
        return None if any(task in tasks for tasks in serving) else "no_handler"


async def look(
    conn: Connection,
    *,
    due_s: float = DUE_S,
    held_s: float = HELD_S,
    rows: int = ROWS,
    after: LanePosition = LanePosition(),
    lanes: int = LANES,
) -> Look:
    """Look once for work that does not run.

    The clock of a test cannot be compared with heartbeats: then it finds nothing.
    """
    at = await conn.fetchrow(NOW)
    if at is None or not at["real"]:
        return Look([], after)
    now: datetime = at["now"]
    moving = await conn.fetch(MOVING_QUEUES)
    fleet = Fleet(
        [(frozenset(row["queues"]), frozenset(row["tasks"])) for row in await conn.fetch(WORKERS, ALIVE_S)],
        {(row["queue"], row["line"]): row["plain"] for row in moving if row["plain"] is not None},
        frozenset(row["queue"] for row in moving if row["plain"] is not None),
        frozenset(row["queue"] for row in moving if row["laned"] is not None),
    )
    stranded = [_plain(row, fleet, now, due_s) for row in await conn.fetch(WAITING_PLAIN, due_s, rows)]
    names = await conn.fetch(LANES_AFTER, after.queue, after.lane, lanes)
    queues, lane_names = [row["queue"] for row in names], [row["lane"] for row in names]
    for row in await conn.fetch(WAITING_LANES, due_s, queues, lane_names):
        stranded.append(_laned(row, fleet, now, due_s))
    for row in await conn.fetch(HELD_LONG, held_s, due_s):
        stranded.append(Stranded(**dict(row)))
    known = {(each.queue, each.task, each.reason) for each in stranded}
    for row in await conn.fetch(LONG_UNSERVED, due_s):
        if (row["queue"], row["task"], row["reason"]) not in known:
            stranded.append(Stranded(**dict(row)))
    end = LanePosition(queues[-1], lane_names[-1]) if len(names) >= lanes else LanePosition()
    return Look(_grouped(stranded), end)


def _plain(row: Record, fleet: Fleet, now: datetime, due_s: float) -> Stranded:
    queue, task, due_at = row["queue"], row["task"], row["due_at"]
    reason = fleet.missing(queue, task)
    if reason is None and queue not in fleet.plain:
        reason = "overtaken" if queue in fleet.laned else "not_claimed"
    if reason is None:
        younger = fleet.latest.get((queue, row["line"]), due_at) - due_at > timedelta(seconds=due_s)
        reason = "overtaken" if younger and not row["suspect"] else "backlog"
    return Stranded(queue, row["kind"], task, reason, row["count"], row["first_id"], (now - due_at).total_seconds())


def _laned(row: Record, fleet: Fleet, now: datetime, due_s: float) -> Stranded:
    queue, task, blocked_by = row["queue"], row["task"], None
    reason = fleet.missing(queue, task)
    if reason is None:
        if row["held_id"] is not None:
            blocked_by = f"work {row['held_id']}, which has run for {_duration(row['held_s'])}"
            reason = "lane" if row["held_s"] > due_s else "backlog"
        elif row["waits_for_first"]:
            reason, blocked_by = "lane", f"work {row['head_id']}, which comes first and waits for its next attempt"
        elif row["broken"]:
            reason, blocked_by = "lane", "its breaker, which opens after repeated failures"
        elif row["paced"] or queue in fleet.laned:
            reason = "backlog"
        else:
            reason = "overtaken" if queue in fleet.plain else "not_claimed"
    age_s = (now - row["due_at"]).total_seconds()
    return Stranded(queue, row["kind"], task, reason, 1, row["first_id"], age_s, blocked_by)


def _grouped(stranded: Sequence[Stranded]) -> list[Stranded]:
    """Add up what has the same queue, kind, task and reason, the oldest first."""
    groups: dict[tuple[str, str, str, str], list[Stranded]] = {}
    for each in stranded:
        groups.setdefault((each.queue, each.kind, each.task, each.reason), []).append(each)
    merged: list[Stranded] = []
    for key, alike in groups.items():
        oldest = max(alike, key=lambda each: each.age_s)
        merged.append(
            Stranded(*key, sum(each.count for each in alike), oldest.first_id, oldest.age_s, oldest.blocked_by)
        )
    return sorted(merged, key=lambda each: -each.age_s)


def _duration(seconds: float) -> str:
    return f"{seconds / 3600:.1f} h" if seconds >= 5400 else f"{seconds / 60:.0f} min"
