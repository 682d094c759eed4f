"""Release the work of silent workers. Any node may run this loop; a missed tick delays a rescue by one interval.

A worker counts as dead when its heartbeat counter has not changed over three observations of this rescuer. For half a
minute after PostgreSQL has started or a standby was promoted, only workers that have been heard since then can be declared
dead, because the others may still be reconnecting. Where the kernel proves the death of a worker (`WorkerLocks`), the rescuer
waits for nothing.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import datetime, timedelta

import structlog
from asyncpg import Record

from onceward.db import Connection
from onceward.work.statements import OBSERVE_WORKERS
from onceward.work.worker_locks import WorkerLocks

log = structlog.get_logger(__name__)

OBSERVATIONS = 3


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

    def __init__(self, *, apart_s: float = 1.5, settle_s: float = 30.0, locks: WorkerLocks | None = None) -> None:
        self._locks = locks
        self._seen: dict[int, _Seen] = {}
        self._apart_s = apart_s
        self._settle_s = settle_s
        self._server_since: datetime | None = None
        self._first_beats: dict[int, int | None] = {}
        """The heartbeat of each worker when this rescuer first saw it on the current server."""

    async def step(self, conn: Connection, *, own: int | None = None) -> list[Rescued]:
        """Observe every worker, and rescue the work of silent workers."""
        await self._note_server(conn)
        rows = await conn.fetch(OBSERVE_WORKERS, self._settle_s)
        now = time.monotonic()
        present = {row["id"] for row in rows}
        self._seen = {id: seen for id, seen in self._seen.items() if id in present}
        rescued: list[Rescued] = []
        for row in rows:
            if row["id"] != own and self._locks is not None and self._locks.is_dead(row["id"]):
                rescued += await self._rescue(conn, row["id"], row["beat"])
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
                if seen.times > OBSERVATIONS:
                    rescued += await self._rescue(conn, row["id"], row["beat"])
                    self._seen.pop(row["id"], None)
        return rescued

    def _was_heard(self, row: Record) -> bool:
        """Return whether the worker has sent a heartbeat to this server: it has reconnected, and silence means death."""
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

    async def _rescue(self, conn: Connection, worker: int, beat: int | None) -> list[Rescued]:
        rows = await conn.fetch("select * from onceward.rescue($1, $2)", worker, beat)
        log.warning("worker.lost", worker=worker, held=len(rows), hint="other workers run its work again")
        return [Rescued(row["id"], row["kind"], row["task"], worker, row["crashes"], row["dead"]) for row in rows]
