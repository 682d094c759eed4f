"""The verdict of the overview: healthy, attention or trouble, with reasons and links."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from onceward.web.dashboard.contribution import Level, Reason
from onceward.web.dashboard.formats import number, seconds
from onceward.work.pages.figures import Series

LATE_S, VERY_LATE_S = 30.0, 300.0
STORM = 50
"""From this number of dead letters within 15 minutes on, the level is trouble."""
FEW = 20
"""The share of failures is judged only if there were at least this many attempts in the last minute."""


UNSERVED = {
    "no_handler": "No worker knows the task {task}",
    "no_queue": "No worker that knows the task {task} serves the queue {queue}",
    "no_app": "No worker of the app that handles events like {task} runs",
    "no_version": "No worker runs a version of {task} that accepts the arguments of its jobs",
}


@dataclass(frozen=True, slots=True)
class Verdict:
    level: Level
    title: str
    reasons: tuple[Reason, ...]


TITLES: dict[Level, str] = {
    "healthy": "Everything is in order",
    "attention": "Worth a look",
    "trouble": "Something is wrong",
}


def judge(figures: Mapping[str, Any], series: Series, contributed: Iterable[Reason] = ()) -> Verdict:
    """Return the verdict. The worst reason sets the level. Other features add the `contributed` reasons."""
    reasons = [*_work(figures, series), *_machine(figures), *contributed]
    level: Level = "healthy"
    for reason in reasons:
        if reason.level == "trouble":
            level = "trouble"
        elif level == "healthy":
            level = "attention"
    reasons.sort(key=lambda reason: reason.level != "trouble")
    return Verdict(level, TITLES[level], tuple(reasons))


def _work(figures: Mapping[str, Any], series: Series) -> Iterator[Reason]:
    depth, lately = figures["depth"], figures["dead_lately"]
    late_s = depth["oldest_s"] or 0.0
    if late_s > VERY_LATE_S:
        yield Reason(
            "trouble", f"Work has been due for {seconds(late_s)} and has not started", "/dashboard/jobs?state=pending"
        )
    elif late_s > LATE_S:
        yield Reason(
            "attention", f"The oldest due work has waited for {seconds(late_s)}", "/dashboard/jobs?state=pending"
        )
    if lately >= STORM:
        yield Reason("trouble", f"{number(lately)} dead letters in the last 15 minutes", "/dashboard/dead-letters")
    elif depth["dead"]:
        many = "dead letter waits" if depth["dead"] == 1 else "dead letters wait"
        yield Reason("attention", f"{number(depth['dead'])} {many} for a decision", "/dashboard/dead-letters")
    processed, failed = sum(series.processed[-60:]), sum(series.failed[-60:])
    if processed + failed >= FEW and failed * 4 >= processed + failed:
        share = round(100 * failed / (processed + failed))
        yield Reason("trouble", f"{share} % of recent attempts failed", "/dashboard/jobs?state=retrying")


def _machine(figures: Mapping[str, Any]) -> Iterator[Reason]:
    workers, database = figures["workers"], figures["database"]
    if workers is not None and workers["all"] == 0:
        yield Reason("trouble", "No worker is running: start one with `onceward worker`", "/dashboard/workers")
    elif workers is not None and workers["silent"]:
        yield Reason("attention", f"{number(workers['silent'])} of the workers are silent", "/dashboard/workers")
    for row in figures["unserved"]:
        text = UNSERVED[row["reason"]].format(**row)
        yield Reason("attention", f"{text} ({number(row['waiting'])} waiting)", "/dashboard/workers")
    for name in figures["paused"]:
        yield Reason("attention", f"Queue {name} is paused", "/dashboard/queues")
    for row in figures["parked"]:
        yield Reason("attention", f"Queue {row['name']} is parked: {row['parked_for']}", "/dashboard/queues")
    if database is None:
        return
    if database["connections"] > 0.9 * database["most_connections"]:
        yield Reason(
            "trouble",
            f"{database['connections']} of {database['most_connections']} database connections are taken",
            "/#database",
        )
    if (database["longest_s"] or 0) > VERY_LATE_S:
        yield Reason("attention", f"A transaction has been open for {seconds(database['longest_s'])}", "/#database")
