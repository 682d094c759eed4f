"""A temporary empty PostgreSQL for benchmarks, with the shipped settings and fsync on."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

from onceward.db.embedded import EmbeddedPostgres


@asynccontextmanager
async def fresh(directory: Path) -> AsyncGenerator[str]:
    """Yield the URL. `ONCEWARD_TEST_BENCH_URL` names another server instead (the benchmark changes its database!)."""
    given = os.environ.get("ONCEWARD_TEST_BENCH_URL")
    if given:
        yield given
        return
    # If root starts the server, it runs as another user, who needs access to this directory.
    await asyncio.to_thread(directory.parent.chmod, 0o755)
    server = EmbeddedPostgres(directory)
    url = await asyncio.to_thread(server.start)
    try:
        yield url
    finally:
        await asyncio.to_thread(server.stop)
