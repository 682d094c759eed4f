"""Wait at start for a PostgreSQL that is starting too, or restarting: up to a limit, and only for what waiting can cure."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

import asyncpg
import structlog

from onceward.db.errors import DatabaseError, Unavailable
from onceward.db.outage import AWAY

log = structlog.get_logger(__name__)

FIRST_DELAY_S, LONGEST_DELAY_S = 0.1, 2.0
REPEAT_S = 10.0

INCURABLE = (asyncpg.ClientConfigurationError, ssl.SSLError, PermissionError)
"""Counted as lost connections elsewhere, but the same again however long one waits."""

Result = TypeVar("Result")


def can_pass(error: BaseException) -> bool:
    """Whether the error may go away by itself: the server is down, starting, full, or cut the connection.

    A wrong password or a missing database stays, and so does a failed migration.
    """
    cause = error.__cause__ if isinstance(error, DatabaseError) and error.__cause__ is not None else error
    return isinstance(cause, (*AWAY, TimeoutError)) and not isinstance(cause, INCURABLE)


async def wait_for_server(attempt: Callable[[], Awaitable[Result]], *, limit_s: float) -> Result:
    """Return what `attempt` returns; while it fails for a reason that can pass, try again until the limit."""
    started = logged = time.monotonic()
    delay_s, tries = FIRST_DELAY_S, 0
    while True:
        try:
            result = await attempt()
        except Exception as error:
            tries += 1
            now = time.monotonic()
            if limit_s <= 0 or not can_pass(error):
                raise
            if now - started + delay_s > limit_s:
                raise Unavailable(
                    f"PostgreSQL was not available within {limit_s:g} s (ONCEWARD_DATABASE_WAIT_S): {error}"
                ) from error
            if tries == 1 or now - logged >= REPEAT_S:
                logged = now
                log.warning("database.waiting", reason=str(error)[:200], waited_s=round(now - started), limit_s=limit_s)
            await asyncio.sleep(delay_s)
            delay_s = min(LONGEST_DELAY_S, delay_s * 2)
        else:
            if tries:
                log.info("database.available", waited_s=round(time.monotonic() - started, 1))
            return result
