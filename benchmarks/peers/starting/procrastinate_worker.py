"""A worker of Procrastinate that prints a line when it runs its first job. `install` creates the schema and the job."""

from __future__ import annotations

import asyncio
import sys

from procrastinate import App, PsycopgConnector

SCHEMA = "bench_procrastinate_start"
what, url = sys.argv[1:]
app = App(connector=PsycopgConnector(conninfo=url, kwargs={"options": f"-c search_path={SCHEMA}"}))


@app.task(name="first")
async def first() -> None:
    print("handled", flush=True)


async def main() -> None:
    async with app.open_async():
        if what == "install":
            await app.connector.execute_query_async(f"drop schema if exists {SCHEMA} cascade")
            await app.connector.execute_query_async(f"create schema {SCHEMA}")
            await app.schema_manager.apply_schema_async()
        elif what == "enqueue":
            await first.defer_async()
        else:
            await app.run_worker_async()


asyncio.run(main())
