"""Release the work of silent workers. Any node may run this loop; a missed tick delays a rescue by one interval.

A worker counts as dead when its heartbeat counter has not changed over three observations of this rescuer. For half a
minute after PostgreSQL has started or a standby was promoted, only workers that have been heard since then can be
declared dead, because the others may still be reconnecting. Where the kernel proves the death of a worker
(`WorkerLocks`), the rescuer waits for nothing.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import datetime, timedelta

import structlog
from asyncpg import PostgresError, Record

from onceward.db import Connection
from onceward.db.pool import IDLE_LIMIT_S
from onceward.work.statements import CUT_STUCK_SESSIONS, OBSERVE_WORKERS
from onceward.work.worker_locks import WorkerLocks

log = structlog.get_logger(__name__)

OBSERVATIONS = 3
LOCK_NOT_AVAILABLE = "55P03"
LOCK_WAIT_S = 2.0
"""A rescue waits this long for rows that a frozen process has locked, and is tried again at the next step."""


@dataclass(slots=True)
class _Seen:
    beat: int | None
    times: int
    at: float


@dataclass(frozen=True, slots=True)
class Rescued:
    """One piece of work that a dead worker held and the rescuer released."""

    id: int
    kind: str
    task: str
    worker: int
    crashes: int
    dead: bool


class Rescuer:
    """Remembers earlier observations. Each `step` observes once."""

    def __init__(
        self,
        *,
        apart_s: float = 1.5,
        settle_s: float = 30.0,
        stuck_s: float = IDLE_LIMIT_S,
        locks: WorkerLocks | None = None,
    ) -> None:
        self._locks = locks
        self._stuck_s = stuck_s
        self._cut_at = 0.0
        self._seen: dict[int, _Seen] = {}
        self._apart_s = apart_s
        self._settle_s = settle_s
        self._server_since: datetime | None = None
        self._first_beats: dict[int, int | None] = {}
        """The heartbeat of each worker when this rescuer first saw it on the current server."""

    async def step(self, conn: Connection, *, own: int | None = None) -> list[Rescued]:
        """Observe every worker, and rescue the work of silent workers."""
        await self._note_server(conn)
        await self._cut_stuck_sessions(conn)
        rows = await conn.fetch(OBSERVE_WORKERS, self._settle_s)
        now = time.monotonic()
        present = {row["id"] for row in rows}
        self._seen = {id: seen for id, seen in self._seen.items() if id in present}
        rescued: list[Rescued] = []
        for row in rows:
            if row["id"] != own and self._locks is not None and self._locks.is_dead(row["id"]):
                if (released := await self._rescue(conn, row["id"], row["beat"])) is not None:
                    rescued += released
                    self._seen.pop(row["id"], None)
                    self._locks.forget(row["id"])
                continue
            if row["id"] == own or (row["settling"] and not self._was_heard(row)):
                self._seen.pop(row["id"], None)
                continue
            seen = self._seen.get(row["id"])
            if seen is None or seen.beat != row["beat"]:
                self._seen[row["id"]] = _Seen(row["beat"], 1, now)
            elif now - seen.at >= self._apart_s:
                seen.times += 1
                seen.at = now
                if (
                    seen.times > OBSERVATIONS
                    and (released := await self._rescue(conn, row["id"], row["beat"])) is not None
                ):
                    rescued += released
                    self._seen.pop(row["id"], None)
        return rescued

    def _was_heard(self, row: Record) -> bool:
        """Return whether the worker has sent a heartbeat to this server: it has reconnected, and silence means
        death."""
        if row["since"] != self._server_since:
            self._server_since = row["since"]
            self._first_beats = {}
        return self._first_beats.setdefault(row["id"], row["beat"]) != row["beat"]

    async def _note_server(self, conn: Connection) -> None:
        await conn.execute("select onceward.note_timeline()")
        moved_back: timedelta | None = await conn.fetchval("select onceward.note_clock()")
        if moved_back is not None:
            log.warning(
                "database.clock_moved_back",
                by_s=round(moved_back.total_seconds(), 1),
                hint="waiting work was moved by as much; synchronise the clocks of the database servers (NTP)",
            )

    async def _cut_stuck_sessions(self, conn: Connection) -> None:
        """End what would block every rescue: sessions of frozen processes that PostgreSQL itself never ends."""
        if time.monotonic() < self._cut_at:
            return
        self._cut_at = time.monotonic() + self._stuck_s / 6
        async with conn.transaction():
            await conn.execute("set local role none")  # only the login itself may end its sessions
            cut = await conn.fetch(CUT_STUCK_SESSIONS, self._stuck_s)
        for row in cut:
            hint = (
                "a process stopped in the middle of a statement with rows locked: is its machine paused or "
                "out of memory?"
            )
            log.warning("database.session_cut", pid=row["pid"], stuck_s=round(row["stuck_s"], 1), hint=hint)

    async def _rescue(self, conn: Connection, worker: int, beat: int | None) -> list[Rescued] | None:
        """Release the work of one worker, or return None if rows of it are locked: then the next step tries again."""
        try:
            async with conn.transaction():
                await conn.execute(f"set local lock_timeout = {int(LOCK_WAIT_S * 1000)}")
                rows = await conn.fetch("select * from onceward.rescue($1, $2)", worker, beat)
        except PostgresError as error:
            if error.sqlstate != LOCK_NOT_AVAILABLE:
                raise
            log.warning(
                "worker.rescue_waits",
                worker=worker,
                hint="a session holds rows of its work locked; tried again shortly",
            )
            return None
        log.warning("worker.lost", worker=worker, held=len(rows), hint="other workers run its work again")
        return [Rescued(row["id"], row["kind"], row["task"], worker, row["crashes"], row["dead"]) for row in rows]
