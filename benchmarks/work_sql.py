"""Measure 32 concurrent writers that enqueue through SQL: without a worker, beside an idle one and beside a busy one.

Wake-ups that are sent only to idle workers are compared with a NOTIFY in every transaction, and with none at all.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import onceward.work
from benchmarks.measure import Measurement, pgbench
from benchmarks.work_drain import start_worker
from benchmarks.work_rig import ARGUMENT, Case, Rig, against, noop

WRITERS = 32
SCRIPT = f"""select onceward.enqueue('noop', '{{"body": "{ARGUMENT}"}}');\n"""
IF_IDLE = Path(onceward.work.__file__).with_name("functions") / "wake_idle_workers.sql"
HEAD = "create or replace function onceward.wake_idle_workers(queue text) returns void language plpgsql as "
ALWAYS = HEAD + "$$ begin perform pg_notify('onceward_work', queue); end $$"
NEVER = HEAD + "$$ begin end $$"


async def sql_writers(rig: Rig) -> list[Measurement]:
    ways = {"if idle": IF_IDLE.read_text(encoding="utf-8"), "a NOTIFY in each": ALWAYS, "no wake-ups": NEVER}
    results: list[Measurement] = []
    try:
        for beside in ("alone", "idle", "busy"):
            rates: dict[str, list[float]] = {way: [] for way in ways}
            for _ in range(rig.size.turns()):
                for way, function in ways.items():
                    await rig.clear()
                    await rig.db.execute(function)
                    async with _worker(rig, beside):
                        rates[way].append(
                            await pgbench(rig.url, SCRIPT, clients=WRITERS, for_s=rig.size.pick(4.0, 2.0, 1.0))
                        )
            ours = rates.pop("if idle")
            results += [against(f"sql-writers-{beside}", ours, name, theirs) for name, theirs in rates.items()]
    finally:
        await rig.db.execute(ways["if idle"])
    return results


@asynccontextmanager
async def _worker(rig: Rig, beside: str) -> AsyncGenerator[None]:
    """Run a worker process, which has a backlog if it is to be busy."""
    if beside == "alone":
        yield
        return
    if beside == "busy":
        await rig.engine.enqueue_many([noop.call(body=ARGUMENT)] * rig.size.pick(400_000, 200_000, 200))
    child = await start_worker(rig.url)
    try:
        assert child.stdin is not None
        child.stdin.write(b"go\n")
        yield
    finally:
        child.kill()
        await child.wait()


WRITERS_THROUGH_SQL: dict[str, Case] = {"sql-writers": sql_writers}
