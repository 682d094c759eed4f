"""Queries that tests make outside the pool under test, or repeat until the answer is the expected one."""

from __future__ import annotations

import asyncio

import asyncpg

from onceward.db import Database
from onceward.testing import until

WAITS_FOR_LOCK = """
select exists (select from pg_locks l join pg_stat_activity a using (pid)
                where not l.granted and a.datname = current_database())
"""
"""Whether a session of this database waits for a lock: tests run side by side on one server."""
WAITS_FOR_TABLE = """
select exists (select from pg_locks l join pg_stat_activity a using (pid)
                where not l.granted and a.datname = current_database() and l.relation = $1::text::regclass)
"""


def fetch_value(url: str, query: str) -> object:
    """Return one value over a connection of its own, from a test that has no event loop."""

    async def run() -> object:
        conn = await asyncpg.connect(url)
        try:
            return await conn.fetchval(query)
        finally:
            await conn.close()

    return asyncio.run(run())


async def until_query(db: Database, query: str, expected: object, *, timeout_s: float = 30.0) -> None:
    """Wait until the query returns the expected value. The error shows the query and the last value."""
    seen: object = None

    async def matches() -> bool:
        nonlocal seen
        seen = await db.fetchval(query)
        return seen == expected

    try:
        await until(matches, timeout_s=timeout_s, interval_s=0.05)
    except AssertionError as error:
        raise AssertionError(f"{query}: {seen!r}, not {expected!r}: {error}") from None
