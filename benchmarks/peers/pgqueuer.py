"""PgQueuer: several consumers, each with its own connection, fetch batches; its buffer acknowledges in batches."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

# This file has the name of the package that it imports, so its directory must not be on the import path.
sys.path.pop(0)
sys.path.insert(0, str(Path(__file__).parent / "measuring"))
os.environ["PGQUEUER_SCHEMA"] = "bench_pgqueuer"

import asyncpg
from harness import ARGUMENT, INSERT, LOCK, UPDATE, WRITES, main
from pgqueuer import PgQueuer
from pgqueuer.db import AsyncpgDriver, AsyncpgPoolDriver
from pgqueuer.models import Job
from pgqueuer.queries import Queries

PAYLOAD = json.dumps(ARGUMENT, separators=(",", ":")).encode()
CONSUMERS = 5
BATCH = 500


class Adapter:
    schema = "bench_pgqueuer"
    unfinished = "select exists (select from bench_pgqueuer.pgqueuer)"

    def __init__(self, url: str) -> None:
        self.url = url

    async def install(self) -> None:
        conn = await asyncpg.connect(self.url)
        await Queries(AsyncpgDriver(conn)).install()
        await conn.close()

    async def open(self, connections: int) -> None:
        pool = await asyncpg.create_pool(self.url, min_size=connections, max_size=connections)
        self.queries = Queries(AsyncpgPoolDriver(pool))

    async def enqueue(self) -> None:
        await self.queries.enqueue("noop", PAYLOAD)

    async def enqueue_many(self, count: int) -> None:
        await self.queries.enqueue(["noop"] * count, [PAYLOAD] * count, [0] * count)

    async def work(self, handled: Callable[[], None]) -> None:
        pool = await asyncpg.create_pool(self.url, min_size=1, max_size=16) if WRITES else None

        async def consume() -> None:
            consumer = PgQueuer(AsyncpgDriver(await asyncpg.connect(self.url)))

            @consumer.entrypoint("noop")
            async def noop(job: Job) -> None:
                if pool is not None:
                    await write(pool, job.id)
                handled()

            await consumer.run(batch_size=BATCH)

        await asyncio.gather(*(consume() for _ in range(CONSUMERS)))


async def write(pool: asyncpg.Pool, number: int) -> None:
    if WRITES == "insert":
        await pool.execute(INSERT, ARGUMENT["a"])
        return
    async with pool.acquire() as conn, conn.transaction():
        await conn.fetchval(LOCK, number % 100)
        await conn.execute(UPDATE, number % 100)


if __name__ == "__main__":
    main(Adapter)
