"""Jobs of processes that exit right after their commit are started by wake-ups, never found by a poll.

Why none is left to the poll: the engine sends its last wake-ups when it stops; an enqueue through SQL notifies in its own commit
if a worker is idle, and otherwise a worker looks again after that commit (`onceward/work/idle_flags.py`).
"""

from __future__ import annotations

import asyncio
import os
from collections import Counter

import pytest

from onceward import Onceward
from onceward.db import Database
from onceward.testing import until
from tests.child import ROOT, command
from tests.engines import Bench

PARTS = 10
"""The long proof has 10,000 jobs in ten parts, each with a seed of its own: `-m slow -k part-3` runs one of them."""


@pytest.mark.parametrize(
    ("jobs", "seed"),
    [
        pytest.param(100, 0, id="short"),
        *(
            pytest.param(1_000, part, id=f"part-{part}", marks=[pytest.mark.slow, pytest.mark.timeout(300)])
            for part in range(1, PARTS + 1)
        ),
    ],
)
async def test_no_job_of_a_process_that_exits_waits_for_the_poll(bench, db: Database, jobs: int, seed: int) -> None:
    app = Onceward("exiting")
    seen: Counter[int] = Counter()

    @app.job(queue="exiting")
    async def arrive(*, n: int) -> None:
        seen[n] += 1

    here: Bench = await bench(app)
    await here.start_worker(poll_s=3600.0)
    child = await asyncio.create_subprocess_exec(
        *command("tests.work.exiting", db.url, str(jobs), str(seed)),
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert await child.wait() == 0
    await until(lambda: len(seen) == jobs, timeout_s=10)
    assert set(seen.values()) == {1}
