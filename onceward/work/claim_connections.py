"""The few connections over which all queues of a worker claim.

Claims do not use the pool: handlers hold its connections for as long as they run, and a claim must not wait for them. A
claim takes milliseconds, so that many queues share few connections.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import asyncpg

from onceward.db import BROKEN, Connection, Database

MOST = 3
"""Connections for the claims of one worker. Two busy queues have one each, and all others share the third."""
CLOSE_S = 5.0


class ClaimConnections:
    """Lends connections, and opens them when they are first needed.

    Their commits need not be on disk. A claim that a crash of the server forgets leaves the row unclaimed, and the worker
    that thought it had it is superseded.
    """

    def __init__(self, db: Database, *, most: int = MOST) -> None:
        self._db = db
        self._turn = asyncio.Semaphore(most)
        self._idle: list[Connection] = []

    @asynccontextmanager
    async def use(self) -> AsyncGenerator[Connection]:
        """Lend a connection for one claim."""
        async with self._turn:
            conn = await self._open()
            try:
                yield conn
            finally:
                # A cancelled claim is waited for by whoever uses, or closes, the connection next.
                if not conn.is_closed():
                    self._idle.append(conn)

    async def _open(self) -> Connection:
        while self._idle:
            conn = self._idle.pop()
            if not conn.is_closed():
                return conn
        return await self._db.connect(application_name="onceward claims", durable=False)

    async def close(self) -> None:
        """Close all. What a claim that was cut off has taken is visible afterwards."""
        idle, self._idle = self._idle, []
        for conn in idle:
            with contextlib.suppress(*BROKEN, asyncpg.PostgresError, TimeoutError):
                await conn.close(timeout=CLOSE_S)
