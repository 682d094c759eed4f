"""What the workers count."""

from onceward.db import Database
from onceward.telemetry.light import LightCounter, LightHistogram, Spread, Tally
from onceward.telemetry.metrics import gauge
from onceward.work import controls
from onceward.work.task import Task

FINISHED = LightCounter(
    "onceward_work_finished_total",
    "Attempts that ended, by how they ended: success, again, dead, stopped, notknown, or superseded, released, split.",
    ["queue", "task", "outcome"],
)
SECONDS = LightHistogram("onceward_work_seconds", "Time that an attempt took.", ["queue", "task"])


_found: dict[tuple[str, str, str], tuple[Tally, Spread]] = {}


def count(queue: str, task: Task, outcome: str, seconds: float) -> None:
    """Count one finished attempt; names of tasks are those registered in code, so the labels are a closed set."""
    key = (queue, task.name, outcome)
    series = _found.get(key)
    if series is None:
        series = _found[key] = FINISHED.labels(*key), SECONDS.labels(queue, task.name)
    tally, spread = series
    tally.total += 1
    spread.observe(seconds)


DEPTH = gauge("onceward_queue_depth", "Unfinished work, by what it is waiting for.", ["queue", "state"])
OLDEST = gauge(
    "onceward_queue_oldest_due_seconds", "How long the oldest due work of a queue has been waiting.", ["queue"]
)


async def observe_queues(db: Database) -> None:
    """Set the gauges from the database; every node that serves metrics shows the same."""
    for row in await controls.queues(db):
        for state in ("due", "later", "running", "dead"):
            DEPTH.labels(row["queue"], state).set(row[state])
        OLDEST.labels(row["queue"]).set(row["oldest_due_s"] or 0.0)
