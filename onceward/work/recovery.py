"""Continue after the database was restored to an earlier time, or after a failover that lost commits.

Keys of outside calls contain ids (`job:17:notify`). The restored sequence would give the ids of the lost time to other
work, and a service that remembers the key would answer with the old result and do nothing. So the ids are skipped.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass

from onceward.db import Database
from onceward.db.processes import EVERY_S
from onceward.errors import OncewardError
from onceward.trust import record
from onceward.trust.journal import noted

SKIPPED_IDS = 100_000_000
OBSERVE_S = 3.0
UNFINISHED = """
select kind, task, count(*) as count, min(id) as first_id, max(id) as last_id
  from onceward.work where dead_reason is null group by kind, task order by kind, task
"""


NOTED = """
select id, service, host, pid, seen_at from onceward.processes
 where seen_at > clock_timestamp() - make_interval(secs => $1)
"""


class NodesRun(OncewardError):
    """Processes are running. They would use ids that must be skipped."""


@dataclass(frozen=True, slots=True)
class Unfinished:
    """Unfinished work of one task. It may have been done in the time that was lost, and will be done again."""

    kind: str
    task: str
    count: int
    first_id: int
    last_id: int


@dataclass(frozen=True, slots=True)
class Recovery:
    """The first id that is used from now on, and the work that will be repeated."""

    next_id: int
    unfinished: list[Unfinished]


async def recover(
    db: Database,
    *,
    actor: str,
    skip: int = SKIPPED_IDS,
    observe_s: float = OBSERVE_S,
    note_s: float = EVERY_S + 2,
) -> Recovery:
    """Skip the ids that may have been used in the lost time, and return what will be done again.

    Raises `NodesRun` if a worker's heartbeat moves within `observe_s`, or if a process notes itself. A process does so
    every few seconds: one that did not within the last `2 * note_s` does not run; the others are observed for `note_s`.
    """
    before = await _beats(db)
    await asyncio.sleep(observe_s)
    moving = [id for id, beat in (await _beats(db)).items() if before.get(id) != beat]
    if moving:
        raise NodesRun(f"{len(moving)} workers are running: stop all nodes, and run this command before you start them")
    await _refuse_running(db, note_s)
    async with noted(
        db,
        "after-restore",
        step="ids of the lost time may not be skipped",
        remedy="run it again before you start a node",
        blocks=True,
    ):
        return await _skip_ids(db, skip, actor)


async def _skip_ids(db: Database, skip: int, actor: str) -> Recovery:
    next_id: int = await db.fetchval("select setval('onceward.ids', nextval('onceward.ids') + $1)", skip) + 1
    async with db.transaction(role="engine") as tx:
        unfinished = [Unfinished(**dict(row)) for row in await tx.fetch(UNFINISHED)]
        details = {"next_id": next_id, "skipped": skip, "unfinished": sum(each.count for each in unfinished)}
        await record(
            tx,
            "database.recovered",
            entity_type="database",
            entity_id="onceward",
            actor=actor,
            metadata=details,
        )
    return Recovery(next_id, unfinished)


async def _refuse_running(db: Database, note_s: float) -> None:
    """Also a process without a worker uses ids: `serve` accepts events, and takes their numbers from the sequence."""
    before = {row["id"]: row["seen_at"] for row in await db.fetch(NOTED, 2 * note_s)}
    deadline = time.monotonic() + note_s
    while before and time.monotonic() < deadline:
        await asyncio.sleep(min(0.5, note_s / 4))
        moving = [row for row in await db.fetch(NOTED, 2 * note_s) if before.get(row["id"]) != row["seen_at"]]
        if moving:
            names = ", ".join(f"{row['service']} on {row['host']} (pid {row['pid']})" for row in moving[:5])
            raise NodesRun(f"{names} is running: stop all nodes, and run this command before you start them")


async def _beats(db: Database) -> dict[int, int]:
    return {row["id"]: row["beat"] for row in await db.fetch("select id, beat from onceward.workers")}
