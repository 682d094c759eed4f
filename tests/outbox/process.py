"""A worker of the outbox in a process of its own, to be killed. Run with the database's URL."""

from __future__ import annotations

import asyncio
import sys

from onceward.db import Database

from .conftest import OutboxBench


async def main(url: str) -> None:
    db = await Database.open(url, min_size=1, max_size=5)
    bench = OutboxBench(db)
    await bench.engine.start()
    await bench.start_worker(observe_s=0.2, beat_s=0.1)
    sys.stdout.write("working\n")
    sys.stdout.flush()
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
