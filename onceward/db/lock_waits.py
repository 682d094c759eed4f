"""Short waits for locks, many times, and who is in the way.

A statement that waits for a table lock makes everyone who comes later wait too. So a migration waits for a short time,
rolls back, lets the traffic pass, and tries again. While it waits, a second session looks up who holds the lock.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import asyncpg
import structlog

from onceward.background.tasks import spawn
from onceward.db.errors import FAILED, LockNotAcquired, MigrationError
from onceward.statements import read_statement

log = structlog.get_logger(__name__)

BLOCKERS = read_statement("db", "blockers")
LOOK_AFTER_S, LOOK_EVERY_S = 0.1, 5.0
STATEMENTS = frozenset(
    [
        "ALTER",
        "ANALYZE",
        "BEGIN",
        "CALL",
        "CLUSTER",
        "COMMIT",
        "COPY",
        "CREATE",
        "DELETE",
        "DROP",
        "EXECUTE",
        "FETCH",
        "GRANT",
        "INSERT",
        "LISTEN",
        "LOCK",
        "MERGE",
        "REFRESH",
        "REINDEX",
        "ROLLBACK",
        "SAVEPOINT",
        "SELECT",
        "SET",
        "SHOW",
        "TRUNCATE",
        "UPDATE",
        "VACUUM",
        "WITH",
    ]
)
"""The words that are shown. Any other first word of a statement could be a value."""

Connect = Callable[[], Awaitable["asyncpg.Connection[Any]"]]


@dataclass(frozen=True, slots=True)
class Patience:
    """How a migration waits for locks."""

    lock_timeout_ms: int = 500
    give_up_after_s: float = 600.0
    first_pause_s: float = 1.0
    longest_pause_s: float = 10.0


@dataclass(slots=True)
class LockWaits:
    """Runs a step again and again until it gets its locks. `connect` opens the session that looks up who is in the
    way."""

    patience: Patience = field(default_factory=Patience)
    connect: Connect | None = None

    async def retry(self, conn: asyncpg.Connection[Any], name: str, step: Callable[[], Awaitable[None]]) -> None:
        """Run the step, which must leave nothing behind when it fails. Raises `LockNotAcquired` after the limit."""
        started, pause_s, attempt = time.monotonic(), self.patience.first_pause_s, 0
        while True:
            attempt += 1
            async with self.watched(conn, name, attempt=attempt, started=started) as blockers:
                try:
                    await step()
                    return
                except (MigrationError, asyncpg.PostgresError) as error:
                    if not _is_lock_timeout(error):
                        raise
                    failure = error
            waited_s = time.monotonic() - started
            if waited_s + pause_s > self.patience.give_up_after_s:
                raise LockNotAcquired(
                    f"{name} did not get its locks within {waited_s:.0f} s (ONCEWARD_MIGRATION_WAIT_S), and nothing of "
                    f"it was applied; in the way: {'; '.join(blockers) or 'unknown'}. End these sessions and "
                    f"migrate again"
                ) from failure
            log.warning(
                "migration.waiting",
                migration=name,
                attempt=attempt,
                waited_s=round(waited_s, 1),
                next_attempt_in_s=pause_s,
                blocked_by="; ".join(blockers) or "unknown",
            )
            await asyncio.sleep(pause_s)
            pause_s = min(pause_s * 2, self.patience.longest_pause_s)

    @asynccontextmanager
    async def watched(
        self, conn: asyncpg.Connection[Any], name: str, *, attempt: int = 1, started: float | None = None
    ) -> AsyncGenerator[list[str]]:
        """Collect who is in the way while the block runs. A wait without limit is logged every few seconds."""
        blockers: list[str] = []
        if self.connect is None:
            yield blockers
            return
        started = time.monotonic() if started is None else started
        watching = spawn(self._watch(conn.get_server_pid(), name, blockers, started))
        try:
            yield blockers
        finally:
            watching.cancel()
            with suppress(asyncio.CancelledError):
                await watching

    async def _watch(self, pid: int, name: str, blockers: list[str], started: float) -> None:
        assert self.connect is not None
        await asyncio.sleep(LOOK_AFTER_S)
        try:
            conn = await self.connect()
        except FAILED as error:
            log.info("migration.watch_failed", error=type(error).__name__)
            return
        logged = time.monotonic()
        try:
            while True:
                if rows := await conn.fetch(BLOCKERS, pid):
                    blockers[:] = [describe(row) for row in rows]
                    if time.monotonic() - logged >= LOOK_EVERY_S:
                        logged = time.monotonic()
                        waited_s = round(logged - started, 1)
                        text = "; ".join(blockers)
                        log.warning("migration.waiting", migration=name, waited_s=waited_s, blocked_by=text)
                await asyncio.sleep(LOOK_AFTER_S)
        except FAILED as error:
            log.info("migration.watch_failed", error=type(error).__name__)
        finally:
            conn.terminate()


def describe(row: asyncpg.Record) -> str:
    """Return a session in words: never the text of its statement."""
    if row["backend_type"] != "client backend":
        return f"pid {row['pid']}: {row['backend_type']}"
    state = row["state"] or "state not visible"
    age = f" for {_duration(row['age_s'])}" if row["age_s"] is not None else ""
    word = row["statement"] if row["statement"] in STATEMENTS else "not shown"
    verb = "last statement" if state.startswith("idle") else "statement"
    application = row["application_name"] or "without a name"
    return f"pid {row['pid']}: {state}{age}, {verb} {word}, application {application}, user {row['usename']}"


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"


def _is_lock_timeout(error: BaseException) -> bool:
    cause = error.__cause__ if isinstance(error, MigrationError) else error
    return isinstance(cause, (asyncpg.LockNotAvailableError, asyncpg.DeadlockDetectedError))
