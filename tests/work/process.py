"""A worker in a process of its own, to be killed, stopped and restarted by tests: `python -m tests.work.process URL`."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from onceward import Job, JobEnd, Onceward, Tx
from onceward.work import WorkerOptions
from tests.child import ROOT, command
from tests.engines import work_until_terminated

app = Onceward("process")


@app.job(queue="default", retry=[0.05] * 20, timeout=60)
async def record(job: Job, tx: Tx, *, n: int, hold_s: float = 0.0) -> int:
    """One row per job, in the job's own commit."""
    await tx.execute("insert into effects (job, n) values ($1, $2)", job.id, n)
    if hold_s:
        await asyncio.sleep(hold_s)
    return n


@app.job(timeout=60)
async def poison() -> None:
    """Kills the process it runs in, as a fault in a C extension would."""
    os.kill(os.getpid(), signal.SIGKILL)


@app.job(timeout=60)
async def block(*, seconds: float) -> str:
    """Blocks the event loop, as careless code does."""
    time.sleep(seconds)  # noqa: ASYNC251
    return "done"


@app.job(timeout=60)
async def fragile(tx: Tx, *, flag: str) -> str:
    return flag


@fragile.on_end
async def dies_once(tx: Tx, end: JobEnd) -> None:
    """Kills the process between the outcome and its commit, unless the flag file says that it did so before."""
    await tx.execute("insert into effects (job, n) values ($1, 1)", end.id)
    _die_unless(Path(end.arguments["flag"]))


def _die_unless(flag: Path) -> None:
    if not flag.exists():
        flag.touch()
        os.kill(os.getpid(), signal.SIGKILL)


@app.job
async def nothing(*, n: int) -> None: ...


async def main(url: str, concurrency: int) -> None:
    options = WorkerOptions(concurrency=concurrency, poll_s=0.05, beat_s=0.2, observe_s=0.4, settle_s=0.0, grace_s=5.0)
    await work_until_terminated(url, app, options)


def spawn(url: str, concurrency: int = 8) -> subprocess.Popen[str]:
    """Start one; `wait_until_ready` says when it claims."""
    return subprocess.Popen(
        command("tests.work.process", url, str(concurrency)),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )


def wait_until_ready(process: subprocess.Popen[str]) -> None:
    assert process.stdout is not None
    while "ready" not in (line := process.stdout.readline()):
        assert line, "the worker process did not start"


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))
