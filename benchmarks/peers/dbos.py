"""DBOS: 32 callers run workflows of five empty steps, each step checkpointed.

It has only the case `workflows`: we do not compare it as a plain queue.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

# This file has the name of the package that it imports, so its directory must not be on the import path.
sys.path.pop(0)
sys.path.insert(0, str(Path(__file__).parent / "measuring"))

from dbos import DBOS, DBOSConfig
from harness import ARGUMENT, finish, in_turns, percentile, sql

SCHEMA = "bench_dbos"


@DBOS.step()
async def step(a: str) -> None:
    """A step that does nothing."""


@DBOS.workflow()
async def five_steps(a: str) -> None:
    for _ in range(5):
        await step(a)


async def workflows(url: str, count: int, callers: int) -> dict[str, object]:
    await sql(url, f"drop schema if exists {SCHEMA} cascade")
    config: DBOSConfig = {
        "name": "bench",
        "system_database_url": url,
        "dbos_system_schema": SCHEMA,
        "sys_db_pool_size": callers,
        "max_executor_threads": callers * 2,
        "log_level": "ERROR",
    }
    DBOS(config=config)
    DBOS.launch()

    async def run() -> None:
        await five_steps(**ARGUMENT)

    await in_turns(run, count=callers, callers=callers)
    seconds, took = await in_turns(run, count=count, callers=callers)
    return {"value": count / seconds, "unit": "workflows/s", "p99": percentile(took, 99)}


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--url", required=True)
    parser.add_argument("--case", required=True, choices=["workflows"])
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--processes", type=int, choices=[1], default=1)
    parser.add_argument("--callers", type=int, default=32)
    given = parser.parse_args()
    finish(workflows(given.url, given.count, given.callers))
