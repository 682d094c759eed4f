"""Check that a measured piece of work reads its tables by their indexes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager

from onceward.db import Database

READ = """
select s.schemaname || '.' || s.relname as name, coalesce(s.seq_tup_read, 0) as rows from pg_stat_user_tables s
 where s.schemaname || '.' || s.relname = any($1::text[])
"""
SMALL = 10_000
FLUSHED_S = 11.0
"""An idle session reports what it has read within 10 s."""


@asynccontextmanager
async def full_scans(db: Database, tables: Sequence[str], *, most: int) -> AsyncGenerator[None]:
    """Fail if the block reads `most` rows of one of the tables by scanning it: as many as the table has."""
    if most <= SMALL:
        yield  # a small table is read faster without its indexes
        return
    before = await _read(db, tables)
    yield
    after = await _read(db, tables)
    scanned = {name: after[name] - before[name] for name in after if after[name] - before[name] >= most}
    assert not scanned, f"tables were read without an index: {scanned}"


async def _read(db: Database, tables: Sequence[str]) -> dict[str, int]:
    await asyncio.sleep(FLUSHED_S)
    return {row["name"]: row["rows"] for row in await db.fetch(READ, list(tables))}
