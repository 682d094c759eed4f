"""Jobs that programs in other languages run (`@app.job(external=True)`): claim, heartbeat, checkpoint and outcome.

Each such job has a queue of its own, which no worker of ours claims. A program claims through the SQL functions
`onceward.claim_jobs`, `heartbeat_job`, `checkpoint_job`, `finish_job`, `fail_job` and `release_job`, or over HTTP. A
claim has a lease and a time at which it ends; a loop and the next claim take back what has expired. Every write is
fenced by the lease, as in our own workers.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

import asyncpg
import structlog

from onceward.db import Database
from onceward.errors import OncewardError
from onceward.statements import read_statement
from onceward.work.sqlstates import LOST_LEASE
from onceward.work.task import AppRegistry, Task

log = structlog.get_logger(__name__)

PREFIX = "external:"
MOST_WAITS = 20
FIRST_LOOK_S = 0.1
LONGEST_LOOK_S = 1.0
"""How long a waiting request pauses between two looks: the pause grows from the first to the second."""

REGISTER = read_statement("work", "register_external_task")
CLAIM = "select * from onceward.claim_external($1, $2, $3, $4, $5, $6)"
HEARTBEAT = "select onceward.heartbeat_external($1, $2, $3, $4, $5)"
CHECKPOINT = "select onceward.checkpoint_external($1, $2, $3, $4, $5)"
SETTLE = "select onceward.settle_external($1, $2, $3, $4, $5, $6, $7, $8)"


class LeaseLost(OncewardError):
    """The claim expired, or the job has ended: the attempt must be given up."""


@dataclass(frozen=True, slots=True)
class ExternalJob:
    """A claimed job. Every call about it needs its `lease`."""

    id: int
    lease: int
    task: str
    args: Any
    attempt: int
    expires_at: datetime
    cursor: Any
    """The last checkpoint of an earlier attempt, or null."""
    tags: list[str] | None
    organization_id: UUID | None
    caused_by: int | None
    trace: str | None


@dataclass(frozen=True, slots=True)
class Caller:
    """Whose jobs a program may hold: those of one organization, or all."""

    organization: UUID | None
    everybody: bool


def external_queue(task: str) -> str:
    """Return the queue of an external job."""
    return f"{PREFIX}{task}"


async def register_external_tasks(db: Database, registry: AppRegistry) -> None:
    """Tell SQL the retry policy of each external job."""
    for task in registry.external.values():
        retry = task.retry
        await db.execute(
            REGISTER,
            task.name,
            min(retry.max_attempts, 1000),
            _waits_s(task),
            0.0 if retry.waits_s else retry.jitter,
            task.timeout_s,
            task.critical,
        )


def _waits_s(task: Task) -> list[float]:
    """Return the waits between the attempts, without jitter. The last one is repeated."""
    retry = task.retry
    if retry.waits_s:
        return list(retry.waits_s)
    number = min(MOST_WAITS, max(1, retry.max_attempts - 1))
    return [min(retry.max_wait_s, retry.first_s * retry.factor**n) for n in range(number)]


class ExternalJobs:
    """What the HTTP routes do, for one caller."""

    def __init__(self, db: Database, caller: Caller) -> None:
        self._db = db
        self._caller = caller

    async def claim(
        self, tasks: Sequence[str], *, most: int, lease_s: float | None, worker: str | None, wait_s: float
    ) -> list[ExternalJob]:
        """Claim due jobs. Without any, look again until `wait_s` have passed. Nothing is held while it waits."""
        deadline = time.monotonic() + wait_s
        pause_s = FIRST_LOOK_S
        while True:
            async with self._db.transaction(role="engine") as tx:
                rows = await tx.fetch(
                    CLAIM, list(tasks), most, lease_s, worker, self._caller.everybody, self._caller.organization
                )
            if rows or time.monotonic() + pause_s > deadline:
                return [ExternalJob(**dict(row)) for row in rows]
            await asyncio.sleep(pause_s)
            pause_s = min(LONGEST_LOOK_S, pause_s * 2)

    async def heartbeat(self, id: int, lease: int, lease_s: float | None) -> str:
        """Extend the claim. Return `held`, or `cancel` if an operator wants the job to stop."""
        return await self._call(HEARTBEAT, id, lease, lease_s)

    async def checkpoint(self, id: int, lease: int, cursor: Any) -> None:
        """Save how far the job has come."""
        await self._call(CHECKPOINT, id, lease, cursor)

    async def settle(
        self, id: int, lease: int, outcome: str, *, result: Any = None, error: str | None = None, retry_s: float | None
    ) -> str:
        """Record how the attempt ended. Return what became of the job."""
        return await self._call(SETTLE, id, lease, outcome, result, error, retry_s)

    async def _call(self, statement: str, *values: Any) -> Any:
        try:
            async with self._db.transaction(role="engine") as tx:
                return await tx.fetchval(statement, *values, self._caller.everybody, self._caller.organization)
        except asyncpg.PostgresError as error:
            if error.sqlstate == LOST_LEASE:
                raise LeaseLost(str(error)) from None
            raise


async def release_expired_jobs(db: Database) -> int:
    """Take back the jobs whose claims have expired. A loop calls this; claims do so too."""
    async with db.transaction(role="engine") as tx:
        released: int = await tx.fetchval("select onceward.release_expired_jobs()")
    if released:
        log.warning("external_jobs.released", count=released, hint="a program in another language stopped responding")
    return released
