"""The few connections that all queues of a worker share for claims.

Claims do not use the pool: handlers hold pooled connections while they run, and a claim must not wait for handlers. A
claim takes milliseconds, so a few connections serve many queues.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from onceward.db import FAILED, Connection, Database

MOST = 3
"""Connections per worker: enough for two busy queues and one more that all other queues share."""
CLOSE_S = 5.0


class ClaimConnections:
    """Lends connections, and opens each when it is first needed.

    Their commits do not wait for the disk. If the server crashes and loses a claim, the row is unclaimed again, and the
    worker that held it is superseded.
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
                # If the claim was cancelled, the next user of the connection, or its close, waits for the claim to end.
                if not conn.is_closed():
                    self._idle.append(conn)

    async def _open(self) -> Connection:
        while self._idle:
            conn = self._idle.pop()
            if not conn.is_closed():
                return conn
        return await self._db.connect(application_name="onceward claims", durable=False)

    async def close(self) -> None:
        """Close all connections. Afterwards the rows that a cancelled claim took are visible."""
        idle, self._idle = self._idle, []
        for conn in idle:
            with contextlib.suppress(*FAILED):
                await conn.close(timeout=CLOSE_S)
