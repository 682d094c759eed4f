"""Oban for Python: one fetch for all free slots of a queue, acknowledgements batched until the next fetch."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from pathlib import Path

# This file has the name of the package that it imports, so its directory must not be on the import path.
sys.path.pop(0)
sys.path.insert(0, str(Path(__file__).parent / "measuring"))

from harness import ARGUMENT, main, sql
from oban import Oban, worker
from oban.schema import install

LIMIT = 1000

_handled: list[Callable[[], None]] = []


@worker(queue="default")
class Noop:
    async def process(self, job: object) -> None:
        _handled[0]()


class Adapter:
    schema = "bench_oban"
    unfinished = (
        "select exists (select from bench_oban.oban_jobs where state in ('available', 'executing', 'retryable', "
        "'scheduled'))"
    )

    def __init__(self, url: str) -> None:
        self.url = url

    async def install(self) -> None:
        await sql(self.url, f"create schema {self.schema}")
        pool = await Oban.create_pool(self.url, min_size=1, max_size=2)
        await install(pool, prefix=self.schema)
        await pool.close()

    async def open(self, connections: int) -> None:
        self.pool = await Oban.create_pool(self.url, min_size=connections, max_size=max(connections, 10))
        self.client = Oban(pool=self.pool, prefix=self.schema, name="client")

    async def enqueue(self) -> None:
        await self.client.enqueue(Noop.new(ARGUMENT))

    async def enqueue_many(self, count: int) -> None:
        await self.client.enqueue_many(Noop.new(ARGUMENT) for _ in range(count))

    async def work(self, handled: Callable[[], None]) -> None:
        _handled[:] = [handled]
        async with Oban(pool=self.pool, prefix=self.schema, queues={"default": LIMIT}):
            await asyncio.Event().wait()


if __name__ == "__main__":
    main(Adapter)
