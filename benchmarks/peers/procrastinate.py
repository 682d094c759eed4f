"""Procrastinate fetches and finishes jobs one by one, so it runs with concurrency and a connection for each job."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from pathlib import Path

# This file has the name of the package that it imports, so its directory must not be on the import path.
sys.path.pop(0)
sys.path.insert(0, str(Path(__file__).parent / "measuring"))

from harness import ARGUMENT, main, sql
from procrastinate import App, PsycopgConnector

CONCURRENCY = 16

logging.disable(logging.WARNING)


class Adapter:
    schema = "bench_procrastinate"
    unfinished = "select exists (select from bench_procrastinate.procrastinate_jobs where status in ('todo', 'doing'))"

    def __init__(self, url: str) -> None:
        self.url = url

    async def install(self) -> None:
        await sql(self.url, f"create schema {self.schema}")
        app = self._app(1)
        async with app.open_async():
            await app.schema_manager.apply_schema_async()

    def _app(self, connections: int) -> App:
        # It has no setting for a schema: its documentation recommends the search path.
        options = {"options": f"-c search_path={self.schema}"}
        return App(connector=PsycopgConnector(conninfo=self.url, kwargs=options, min_size=1, max_size=connections))

    async def open(self, connections: int) -> None:
        self.handled: Callable[[], None] = lambda: None
        # One connection listens, the others fetch and finish.
        self.app = self._app(max(connections, CONCURRENCY + 2))

        @self.app.task(name="noop")
        async def noop(a: str) -> None:
            self.handled()

        self.noop = noop
        await self.app.open_async()

    async def enqueue(self) -> None:
        await self.noop.defer_async(**ARGUMENT)

    async def enqueue_many(self, count: int) -> None:
        await self.noop.batch_defer_async(*([ARGUMENT] * count))

    async def work(self, handled: Callable[[], None]) -> None:
        self.handled = handled
        await self.app.run_worker_async(
            concurrency=CONCURRENCY, delete_jobs="successful", install_signal_handlers=False
        )


if __name__ == "__main__":
    main(Adapter)
