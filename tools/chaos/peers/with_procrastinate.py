"""A process of the chaos run that uses Procrastinate: `python with_procrastinate.py schema`, `enqueuer` or `worker`.

It runs in the peer's own virtual environment. It is configured as Procrastinate's documentation recommends for production: all
servers in the URL, connections checked before use, a retry strategy, and the periodic task that retries stalled jobs (every minute
here, every ten in the documentation). A worker whose side task fails ends itself; `PeerSystem.supervise` restarts it, as systemd does.
"""

from __future__ import annotations

import asyncio
import ctypes
import logging
import os
import random
import signal
import sys
from typing import Any

from procrastinate import App, PsycopgConnector, RetryStrategy
from psycopg_pool import AsyncConnectionPool

URL = os.environ["PEER_URL"]
CONCURRENCY = 16
IN_FLIGHT = 40

log = logging.getLogger("peer")


app = App(connector=PsycopgConnector(conninfo=URL, min_size=1, max_size=6))  # checks its connections by itself
effects = AsyncConnectionPool(URL, min_size=1, max_size=6, check=AsyncConnectionPool.check_connection, open=False)


@app.task(name="effect", retry=RetryStrategy(max_attempts=20, wait=1))
async def effect(n: int) -> None:
    async with effects.connection() as conn:
        await conn.execute("insert into chaos.effects (kind, ref) values ('job', %s)", (n,))


@app.periodic(cron="* * * * *")
@app.task(queueing_lock="retry_stalled_jobs", pass_context=True)
async def retry_stalled_jobs(context: Any, timestamp: int) -> None:
    for job in await app.job_manager.get_stalled_jobs():
        await app.job_manager.retry_job(job)


async def enqueue() -> None:
    """Enqueue jobs at a steady rate, and write down the number of every job whose commit was acknowledged."""
    rate, slots = float(os.environ["PEER_RATE"]), asyncio.Semaphore(IN_FLIGHT)
    acknowledged = os.open(os.environ["PEER_ACKNOWLEDGED"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    async def one(n: int) -> None:
        try:
            await effect.defer_async(n=n)
            os.write(acknowledged, f"{n}\n".encode())
        except Exception as error:
            log.warning("not enqueued: %s", error)
        finally:
            slots.release()

    async with app.open_async(), asyncio.TaskGroup() as running:
        print("ready", flush=True)
        while True:
            await slots.acquire()
            running.create_task(one(random.getrandbits(62)))
            await asyncio.sleep(1 / rate)


async def work() -> None:
    async with app.open_async(), effects:
        print("ready", flush=True)
        await app.run_worker_async(concurrency=CONCURRENCY)


async def create_schema() -> None:
    async with app.open_async():
        await app.schema_manager.apply_schema_async()
        await app.connector.execute_query_async("create schema chaos")
        await app.connector.execute_query_async(
            "create table chaos.effects (id bigint generated always as identity, kind text, ref bigint)"
        )


if __name__ == "__main__":
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG: it ends with its parent
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(message)s")
    asyncio.run({"schema": create_schema, "enqueuer": enqueue, "worker": work}[sys.argv[1]]())
