"""Processes that enqueue a few jobs at random moments and exit: `python -m tests.work.exiting URL JOBS SEED`.

Onceward is imported once; each process is a fork. Every second process enqueues through SQL, as another language would.
"""

from __future__ import annotations

import asyncio
import os
import random
import sys

from onceward import Engine, Onceward
from onceward.db import Database

MOST_PER_PROCESS = 8
AT_ONCE = 2

app = Onceward("exiting")


@app.job(queue="exiting")
async def arrive(*, n: int) -> None: ...


async def enqueue_and_exit(url: str, numbers: range, chance: random.Random, *, through_sql: bool) -> None:
    db = await Database.open(url, min_size=1, max_size=2)
    engine = Engine(db, app.registry)
    await engine.start()
    for n in numbers:
        await asyncio.sleep(chance.random() * 0.02)
        if through_sql:
            await db.execute("select onceward.enqueue('arrive', $1, queue => 'exiting')", {"n": n})
        else:
            await engine.enqueue(arrive, n=n)
    await engine.stop()
    await db.close()


def main(url: str, jobs: int, seed: int) -> None:
    chance = random.Random(seed)
    running: set[int] = set()
    started = 0
    while started < jobs or running:
        if started < jobs and len(running) < AT_ONCE:
            numbers = range(started, min(jobs, started + chance.randint(1, MOST_PER_PROCESS)))
            child_seed, through_sql = chance.random(), chance.random() < 0.5
            started = numbers.stop
            pid = os.fork()
            if pid == 0:
                asyncio.run(enqueue_and_exit(url, numbers, random.Random(child_seed), through_sql=through_sql))
                os._exit(0)
            running.add(pid)
        else:
            pid, status = os.wait()
            running.discard(pid)
            if status != 0:
                sys.exit(f"a process ended with status {status}")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
