"""What the workers count."""

from onceward.telemetry.metrics import counter, histogram
from onceward.work.task import Task

FINISHED = counter(
    "onceward_work_finished_total", "Attempts that ended, by how they ended.", ["queue", "task", "outcome"]
)
SECONDS = histogram("onceward_work_seconds", "Time that an attempt took.", ["queue", "task"])


def count(queue: str, task: Task, outcome: str, seconds: float) -> None:
    """Count one finished attempt; names of tasks are those registered in code, so the labels are a closed set."""
    FINISHED.labels(queue, task.name, outcome).inc()
    SECONDS.labels(queue, task.name).observe(seconds)
