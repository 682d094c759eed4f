"""A PostgreSQL for measuring: the shipped settings, fsync on, empty, thrown away afterwards."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

from onceward.db.embedded import EmbeddedPostgres


@asynccontextmanager
async def fresh(directory: Path) -> AsyncGenerator[str]:
    """Its URL; `ONCEWARD_TEST_BENCH_URL` measures another server instead (its database is changed!)."""
    given = os.environ.get("ONCEWARD_TEST_BENCH_URL")
    if given:
        yield given
        return
    # Started as root, the server runs as another user and must get through.
    await asyncio.to_thread(directory.parent.chmod, 0o755)
    server = EmbeddedPostgres(directory)
    url = await asyncio.to_thread(server.start)
    try:
        yield url
    finally:
        await asyncio.to_thread(server.stop)
