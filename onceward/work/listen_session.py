"""Statements on the connection that listens. A server that does not answer stops nobody for longer than a few
seconds."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from onceward.db import Connection

TURN_S = 1.0
"""How long a statement waits until the connection is free."""
ANSWER_S = 5.0
"""How long a statement may take. After that the connection is closed: whether the statement was executed is unknown."""


class ListenSession:
    """The connection on which this process listens, if it has one. It runs one statement at a time."""

    def __init__(self) -> None:
        self.conn: Connection | None = None
        self._turn = asyncio.Lock()

    @property
    def is_open(self) -> bool:
        return self.conn is not None and not self.conn.is_closed()

    @asynccontextmanager
    async def use(self) -> AsyncGenerator[Connection | None]:
        """Lend the connection, or None if this process does not listen. Raises TimeoutError if it is not free in time.

        If the block takes too long, the connection is closed and the block ends with TimeoutError; the waker connects
        again.
        """
        async with asyncio.timeout(TURN_S):
            await self._turn.acquire()
        conn = self.conn if self.is_open else None
        try:
            async with asyncio.timeout(ANSWER_S):
                yield conn
        except BaseException:
            if conn is not None:
                conn.terminate()
            raise
        finally:
            self._turn.release()
