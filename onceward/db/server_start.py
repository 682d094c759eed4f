"""Wait at start for a PostgreSQL that is starting or restarting, up to a limit. Errors that cannot pass end the
wait."""

from __future__ import annotations

import ssl
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

import asyncpg
import structlog

from onceward.db.backoff import Backoff, retry
from onceward.db.errors import OUTAGE, DatabaseError, Unavailable

log = structlog.get_logger(__name__)

FIRST_DELAY_S, LONGEST_DELAY_S = 0.1, 2.0
REPEAT_S = 10.0

PERMANENT = (asyncpg.ClientConfigurationError, ssl.SSLError, PermissionError)
"""Elsewhere these count as lost connections, but waiting does not help against them."""

Result = TypeVar("Result")


def can_pass(error: BaseException) -> bool:
    """Return whether the error may pass: the server is down, starting, full, or closed the connection.

    A wrong password, a missing database and a failed migration do not pass.
    """
    cause = error.__cause__ if isinstance(error, DatabaseError) and error.__cause__ is not None else error
    return isinstance(cause, OUTAGE) and not isinstance(cause, PERMANENT)


async def wait_for_server(attempt: Callable[[], Awaitable[Result]], *, limit_s: float) -> Result:
    """Return the result of `attempt`. While it fails with an error that can pass, retry until the limit."""
    started = logged = time.monotonic()
    tries = 0

    def on_failure(error: Exception, pause_s: float) -> None:
        nonlocal logged, tries
        tries += 1
        now = time.monotonic()
        if limit_s <= 0 or not can_pass(error):
            raise error
        if now - started + pause_s > limit_s:
            raise Unavailable(
                f"PostgreSQL was not available within {limit_s:g} s (ONCEWARD_DATABASE_WAIT_S): {error}"
            ) from error
        if tries == 1 or now - logged >= REPEAT_S:
            logged = now
            log.warning("database.waiting", reason=str(error)[:200], waited_s=round(now - started), limit_s=limit_s)

    result = await retry(attempt, on_failure, backoff=Backoff(first_s=FIRST_DELAY_S, longest_s=LONGEST_DELAY_S))
    if tries:
        log.info("database.available", waited_s=round(time.monotonic() - started, 1))
    return result
