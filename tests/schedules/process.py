"""A worker for schedules in a process of its own: `python -m tests.schedules.process URL NAME`.

The process called `first` freezes itself once each of the three runs has reached its point: between two items, inside an
item's transaction, and after the last item.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from typing import Any

from onceward import Onceward, Run, Tx
from onceward.work import WorkerOptions
from tests.child import ROOT, command
from tests.engines import work_until_terminated

ITEMS = (1, 2, 3, 4, 5)
TABLE = "create table effects (schedule text, item int, process text); grant all on effects to onceward_app"

app = Onceward("stale_runs")


class Freeze:
    """Stops this process when as many runs as there are schedules have arrived; they go on when it is continued."""

    def __init__(self, *, name: str) -> None:
        self.name = name
        self._waiting = len(app.schedules) if name == "first" else 0
        self._thawed = asyncio.Event()

    async def arrive(self) -> None:
        if not self._waiting:
            return
        self._waiting -= 1
        if self._waiting:
            await self._thawed.wait()
            return
        sys.stdout.write("frozen\n")
        sys.stdout.flush()
        os.kill(os.getpid(), signal.SIGSTOP)
        self._thawed.set()


freeze: Freeze


async def effect(schedule: str, item: int, tx: Tx) -> None:
    await tx.execute("insert into effects values ($1, $2, $3)", schedule, item, freeze.name)


@app.cron("0 2 * * *", retry=[0.05])
async def between_items(run: Run) -> dict[str, str]:
    async def items() -> AsyncIterator[int]:
        for item in ITEMS:
            if item == 3:
                await freeze.arrive()
            yield item

    async def do(item: int, tx: Tx) -> None:
        await effect(run.schedule, item, tx)

    await run.each(items(), do)
    return {"process": freeze.name}


@app.cron("0 2 * * *", retry=[0.05])
async def inside_an_item(run: Run) -> dict[str, str]:
    async def do(item: int, tx: Tx) -> None:
        await effect(run.schedule, item, tx)
        if item == 3:
            await freeze.arrive()

    await run.each(ITEMS, do)
    return {"process": freeze.name}


@app.cron("0 2 * * *", retry=[0.05])
async def before_closing(run: Run) -> dict[str, str]:
    async def do(item: int, tx: Tx) -> None:
        await effect(run.schedule, item, tx)

    await run.each(ITEMS, do)
    async with run.transaction() as tx:
        await effect(run.schedule, 6, tx)
        await freeze.arrive()
    return {"process": freeze.name}


async def main(url: str, name: str) -> None:
    global freeze
    freeze = Freeze(name=name)
    # Only the second one rescues: a busy machine must not make the first take the runs back.
    observe_s = 600.0 if name == "first" else 0.2
    options = WorkerOptions(concurrency=8, poll_s=0.05, beat_s=0.1, observe_s=observe_s, settle_s=0.0, grace_s=20.0)
    await work_until_terminated(url, app, options)


def spawn(url: str, name: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        command("tests.schedules.process", url, name),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )


def wait_for_line(process: subprocess.Popen[Any], line: str) -> None:
    """Read what the process prints until the line is there."""
    assert process.stdout is not None
    while (read := process.stdout.readline()).strip() != line:
        assert read, f"the process ended before it printed {line!r}"


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2]))
