"""The running processes and the migrations that their code knows, so that no schema is contracted below a running
process.

Each process notes itself when it starts and every few seconds. `migrate` defers a `contract` file while a process runs
whose code does not have the migration that the file names. A process that was not counted, because it was cut off,
finds out by itself.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID, uuid4

import asyncpg
import structlog

from onceward.background.loop import Loop
from onceward.db.connection_share import FEWEST, Demand, read_connections, share_pools
from onceward.db.errors import FAILED, NewerSchema
from onceward.db.pool import Database
from onceward.statements import named, read_statement

log = structlog.get_logger(__name__)

EVERY_S = 10.0
COUNTS_FOR_S = 60.0
"""How long a process counts as running after its last note."""
FORGET_AFTER_S = 86_400.0

NOTE = named(read_statement("db", "note_process"))
OLDER = read_statement("db", "older_processes")
REQUIRED = "select owner, max(requires) as requires from onceward.migrations where requires > 0 group by owner"
LIST = (
    "select service, host, pid, version, knows, failing, started_at, seen_at, seen_at > clock_timestamp() - "
    "make_interval(secs => $1) as running from onceward.processes order by host, pid"
)


@dataclass(frozen=True, slots=True)
class RunningProcess:
    """A process that has noted itself within the last minute."""

    service: str
    host: str
    pid: int
    version: str

    def __str__(self) -> str:
        return f"{self.service} {self.version} on {self.host}, pid {self.pid}"


async def older_processes(conn: asyncpg.Connection[Any], owner: str, number: int) -> list[RunningProcess]:
    """Return the running processes whose code does not have this migration."""
    return [RunningProcess(**dict(row)) for row in await conn.fetch(OLDER, owner, number, COUNTS_FOR_S)]


async def running_processes(db: Database) -> list[RunningProcess]:
    """Return the processes that run on the database. An empty database has none."""
    if await db.fetchval("select to_regclass('onceward.processes')") is None:
        return []
    rows = [row for row in await db.fetch(LIST, COUNTS_FOR_S) if row["running"]]
    return [RunningProcess(row["service"], row["host"], row["pid"], row["version"]) for row in rows]


def too_old(knows: Mapping[str, int], required: Mapping[str, int]) -> NewerSchema | None:
    """Return why code that knows these migrations cannot run on a schema with these requirements."""
    for owner, number in required.items():
        if knows.get(owner, number) < number:
            return NewerSchema(
                f"the schema of {owner} was contracted and needs code with migration {number:04d}; this code has "
                f"{knows[owner]:04d}: deploy the newer version"
            )
    return None


@dataclass(slots=True)
class ProcessNote:
    """Notes this process, and calls `on_too_old` once when the schema was contracted beyond what its code knows."""

    db: Database
    knows: Mapping[str, int]
    service: str
    version: str
    on_too_old: Callable[[NewerSchema], None]
    failing: Callable[[], Mapping[str, str]] = field(default=dict)
    """Returns the loops of the process that keep failing or hang."""
    overdue: Callable[[], Mapping[str, int]] = field(default=dict)
    """Returns how many handlers inside requests of this process ignore their time limit, by name."""
    demand: Demand | None = None
    """What the process needs of the connections that all processes share, or None behind PgBouncer."""
    connections_max: int | None = None
    """How many connections all processes together may open; None: what the server allows, less a reserve."""
    every_s: float = field(default_factory=lambda: EVERY_S)
    id: UUID = field(default_factory=uuid4)
    failure: NewerSchema | None = None
    _loop: Loop = field(init=False)

    def __post_init__(self) -> None:
        self._loop = Loop("process note", self._step, every_s=self.every_s, waits_first=True)

    async def start(self) -> None:
        """Note the process. Raises `NewerSchema` if its code is too old."""
        await self.db.execute(
            "delete from onceward.processes where seen_at < clock_timestamp() - make_interval(secs => $1)",
            FORGET_AFTER_S,
        )
        await self.note()
        if self.failure is not None:
            raise self.failure
        await self._take_share(starts=True)
        await self._loop.start()

    async def stop(self) -> None:
        await self._loop.stop()
        try:
            await self.db.execute("delete from onceward.processes where id = $1", self.id)
        except FAILED as error:  # the row stops counting by itself
            log.info("process.note_failed", error=type(error).__name__)

    async def note(self) -> None:
        """Write the note, then read what the schema requires: in this order, see `_refuse_older` in migrations.py."""
        await self.db.execute(
            NOTE.text,
            *NOTE.values(
                id=self.id,
                service=self.service,
                host=socket.gethostname(),
                pid=os.getpid(),
                version=self.version,
                knows=dict(self.knows),
                failing=self.failing(),
                overdue=self.overdue(),
                outside=0 if self.demand is None else self.demand.outside,
                pool=0 if self.demand is None else self.demand.pool,
            ),
        )
        required = {row["owner"]: row["requires"] for row in await self.db.fetch(REQUIRED)}
        failure = too_old(self.knows, required)
        if failure is not None and self.failure is None:
            self.failure = failure
            self.on_too_old(failure)

    async def _step(self) -> None:
        await self.note()
        await self._take_share()

    async def _take_share(self, *, starts: bool = False) -> None:
        """Set the size of the pool to the share of this process.

        Processes that run already hold more than their new share for some seconds, so a process that starts takes only
        what is free.
        """
        if self.demand is None:
            return
        connections = await read_connections(self.db, counts_for_s=COUNTS_FOR_S)
        demands = {**connections.demands, self.id: self.demand}
        sizes = dict(
            zip(demands, share_pools(list(demands.values()), connections.limit(self.connections_max)), strict=True)
        )
        size = sizes[self.id]
        if starts:
            size = max(FEWEST, min(size, connections.free - self.demand.outside))
        if size != self.db.most_connections:
            await self.db.resize(size)
            log.info("pool.resized", connections=size, processes=len(demands))
