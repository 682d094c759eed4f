"""A saga of five steps with compensations, half of them writing through `tx`, and a worker process that runs it.

`python -m tests.workflows.saga URL CONCURRENCY DIE_AT` kills itself with SIGKILL at the n-th gate it passes (0: never).
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from typing import Any

from onceward import Onceward, Permanent, Step, Tx, Workflow
from onceward.db import Database
from onceward.work import WorkerOptions, gate
from tests.child import ROOT, command
from tests.engines import work_until_terminated

app = Onceward("saga")

TABLES = """
create table effects (n bigint generated always as identity, workflow bigint, what text);
create table outside (key text primary key, calls int not null default 1);
grant all on effects, outside to onceward_app;
"""
CALL = "insert into outside as o (key) values ($1) on conflict (key) do update set calls = o.calls + 1"

outside: list[Database] = []
"""The service that is called: at least once, by key."""


async def reserve(step: Step, tx: Tx, order: int) -> int:
    await tx.execute("insert into effects (workflow, what) values ($1, 'reserve')", order)
    return order


async def charge(step: Step, order: int) -> str:
    await outside[0].execute(CALL, step.idempotency_key.partition(":")[2].partition(":")[2] + f" {order}")
    return "charged"


async def book(tx: Tx, order: int) -> None:
    await tx.execute("insert into effects (workflow, what) values ($1, 'book')", order)


async def notify(step: Step, order: int) -> None:
    await outside[0].execute(CALL, f"notify {order}")


async def deliver(tx: Tx, order: int, fails: bool) -> str:
    await tx.execute("insert into effects (workflow, what) values ($1, 'deliver')", order)
    if fails:
        raise Permanent("nobody at home")
    return "delivered"


async def release(tx: Tx, order: int) -> None:
    await tx.execute("insert into effects (workflow, what) values ($1, 'release')", order)


async def refund(step: Step, order: int) -> None:
    await outside[0].execute(CALL, f"refund {order}")


async def unbook(tx: Tx, order: int) -> None:
    await tx.execute("insert into effects (workflow, what) values ($1, 'unbook')", order)


@app.workflow
async def saga(wf: Workflow, *, order: int, fails: bool) -> str:
    await wf.compensate(release, order)
    await wf.step(reserve, order)
    await wf.compensate(refund, order)
    await wf.step(charge, order)
    await wf.compensate(unbook, order)
    await wf.step(book, order)
    await wf.step(notify, order)
    return await wf.step(deliver, order, fails)


@app.workflow
async def five(wf: Workflow, *, n: int, hold_s: float = 0.0) -> int:
    """Five quick steps, for recovery."""
    for number in range(5):
        await wf.step(_add, n, number, hold_s)
    return n


async def _add(n: int, number: int, hold_s: float) -> int:
    if hold_s:
        await asyncio.sleep(hold_s)
    return n + number


async def outcome(db: Database) -> dict[str, Any]:
    """All that must be the same however often it crashed. Calls to the outside count once per key."""
    flows = await db.fetch(
        "select args, state, result, error ->> 'type' as error from onceward.workflows order by args::text"
    )
    steps = await db.fetch(
        "select f.args::text as of, s.position, s.key, s.kind, s.state from onceward.workflow_steps s"
        " join onceward.workflows f on f.id = s.workflow_id order by 1, 2"
    )
    effects = await db.fetch("select workflow, array_agg(what order by n) as what from effects group by 1 order by 1")
    calls = await db.fetch("select key from outside order by key")
    left = await db.fetchval("select count(*) from onceward.work")
    return {
        "flows": [tuple(row.values()) for row in flows],
        "steps": [tuple(row) for row in steps],
        "effects": [tuple(row) for row in effects],
        "calls": [row["key"] for row in calls],
        "left": left,
    }


class DieAt:
    """SIGKILL at the n-th gate: nothing is flushed or logged."""

    def __init__(self, number: int) -> None:
        self._left = number

    def __call__(self, _name: str) -> None:
        self._left -= 1
        if self._left == 0:
            os.kill(os.getpid(), signal.SIGKILL)


async def main(url: str, concurrency: int, die_at: int) -> None:
    options = WorkerOptions(concurrency=concurrency, poll_s=0.05, beat_s=0.1, observe_s=0.2, settle_s=0.0, grace_s=5.0)

    def before_start(db: Database) -> None:
        outside.append(db)
        gate.hook = DieAt(die_at) if die_at else None

    await work_until_terminated(url, app, options, before_start=before_start)


def spawn(url: str, *, concurrency: int = 8, die_at: int = 0) -> subprocess.Popen[str]:
    """Start one; it claims at once."""
    return subprocess.Popen(
        command("tests.workflows.saga", url, str(concurrency), str(die_at)),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
