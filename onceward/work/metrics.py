"""Metrics of workers and queues."""

from collections import Counter

import structlog

from onceward.db import Database
from onceward.telemetry.light import LightCounter, LightHistogram, Spread, Tally
from onceward.telemetry.metrics import gauge
from onceward.work import controls
from onceward.work.attempt_outcome import CountedOutcome
from onceward.work.liveness import LanePosition, Stranded, look
from onceward.work.overdue import COUNT
from onceward.work.task import Task
from onceward.work.usage import USAGE

log = structlog.get_logger(__name__)

FINISHED = LightCounter(
    "onceward_work_finished_total",
    "Ended attempts by outcome, in the words of `onceward.attempts`. Not stored: superseded (the lease was lost) and "
    "parked (a workflow waits).",
    ["queue", "task", "outcome"],
)
SECONDS = LightHistogram("onceward_work_seconds", "Duration of an attempt.", ["queue", "task"])


SHARED = LightCounter(
    "onceward_shared_work_total", "Successes whose commit several handlers shared.", ["queue", "task"]
)
SHARED_COMMITS = LightCounter(
    "onceward_shared_commits_total",
    "Commits that several handlers shared. A commit counts for each task in proportion to its members, so the quotient "
    "of the two is the size of its groups.",
    ["queue", "task"],
)

_series: dict[tuple[str, str, CountedOutcome], tuple[Tally, Spread]] = {}


def count(queue: str, task: Task, outcome: CountedOutcome, seconds: float, shared: int = 1) -> None:
    """Count one finished attempt. Only registered tasks run, so the set of labels is bounded."""
    key = (queue, task.name, outcome)
    series = _series.get(key)
    if series is None:
        series = _series[key] = FINISHED.labels(*key), SECONDS.labels(queue, task.name)
    tally, spread = series
    tally.total += 1
    spread.observe(seconds)
    if shared > 1:
        count_shared(queue, task, shared)


def count_shared(queue: str, task: Task, shared: int) -> None:
    """Count one success whose commit `shared` handlers had together."""
    SHARED.labels(queue, task.name).total += 1
    SHARED_COMMITS.labels(queue, task.name).total += 1 / shared


DEPTH = gauge(
    "onceward_queue_depth",
    "Unfinished work by state: due, later, running or dead. Exact up to 10,000; a larger number is shown as 10,000.",
    ["queue", "state"],
)
OLDEST = gauge("onceward_queue_oldest_due_seconds", "Time that the oldest due work of a queue has waited.", ["queue"])
WAITING_LONGEST = 10
ORGANIZATION_OLDEST = gauge(
    "onceward_organization_oldest_due_seconds",
    "Time that the oldest due work of an organization has waited outside lanes, for the 10 that wait longest. Empty: "
    "no organization.",
    ["queue", "organization"],
)
OVERDUE = gauge(
    "onceward_handlers_overdue",
    "Handlers that exceed their timeout and cannot be stopped: functions in threads, and coroutines that swallow a "
    "cancellation.",
    ["task"],
)


STRANDED = gauge(
    "onceward_work_stranded",
    "Work that has been due for 5 minutes, or claimed for an hour without progress, although nothing paused it, by "
    "reason. A lower bound: the oldest work of each queue and some lanes are examined.",
    ["queue", "kind", "reason"],
)


class StrandedWork:
    """Looks for work that does not run. Every node shows the same values, except that each looks at its own lanes in
    turn."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._lanes = LanePosition()
        self._logged: set[tuple[str, str, str, str]] = set()

    async def step(self) -> list[Stranded]:
        """Look once, set the gauge, and log what is new."""
        async with self._db.acquire() as conn:
            found = await look(conn, after=self._lanes)
        self._lanes = found.lanes
        counts: Counter[tuple[str, str, str]] = Counter()
        for each in found.stranded:
            counts[each.queue, each.kind, each.reason] += each.count
        STRANDED.clear()
        for labels, number in counts.items():
            STRANDED.labels(*labels).set(number)
        faults = {(each.queue, each.kind, each.task, each.reason): each for each in found.stranded if each.is_fault}
        for key, each in faults.items():
            if key not in self._logged:
                log.warning("work.stranded", reason=each.reason, detail=str(each))
        self._logged = set(faults)
        return found.stranded


async def observe_queues(db: Database) -> None:
    """Set the gauges from the database. Every node shows the same values."""
    OVERDUE.clear()
    for row in await db.fetch(COUNT):
        OVERDUE.labels(row["task"]).set(row["count"])
    for row in await controls.queues(db):
        for state in ("due", "later", "running", "dead"):
            DEPTH.labels(row["queue"], state).set(row[state])
        OLDEST.labels(row["queue"]).set(row["oldest_due_s"] or 0.0)
    await USAGE.show(db)
    ORGANIZATION_OLDEST.clear()
    for row in await controls.waiting(db, limit=WAITING_LONGEST, most=1):
        ORGANIZATION_OLDEST.labels(row["queue"], row["organization"] or "").set(row["oldest_due_s"])
