"""How much the database occupies, and how much space its disk has left where that can be known."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import orjson

from onceward.db.transaction import Connection
from onceward.statements import read_statement

SIZE = read_statement("db", "database_size")
LARGEST_TABLES = 20
GIB = 1024**3


@dataclass(frozen=True, slots=True)
class Disk:
    """The free and total space of the disk with the least free space among those of the server."""

    free_bytes: int
    total_bytes: int

    @property
    def level(self) -> Literal["ok", "warn", "fail"]:
        """PostgreSQL stops when its disk is full, and a vacuum or an index may need as much as its table."""
        if self.free_bytes < GIB // 4:
            return "fail"
        return "warn" if self.free_bytes < 2 * GIB else "ok"


@dataclass(frozen=True, slots=True)
class DatabaseSize:
    """The size of the database and of its largest tables. `disk` is None if the server runs on another machine."""

    bytes: int
    tables: Mapping[str, int]
    disk: Disk | None


async def measure(conn: Connection, directory: Path | None = None) -> DatabaseSize:
    """Measure the database.

    `directory` is where the embedded server keeps its data; other servers are asked for theirs.
    """
    row = await conn.fetchrow(SIZE, LARGEST_TABLES)
    assert row is not None
    tables = orjson.loads(row["tables"]) if isinstance(row["tables"], str) else row["tables"]
    place = directory or (None if row["directory"] is None else Path(row["directory"]))
    return DatabaseSize(row["bytes"], tables or {}, None if place is None else disk_of(place))


def disk_of(directory: Path) -> Disk | None:
    """Return the disk of the server's directory, or of its log (`pg_wal` may be on another disk).

    None if it is not here.
    """
    disks: list[Disk] = []
    for place in (directory, directory / "pg_wal"):
        try:
            usage = shutil.disk_usage(place)
        except OSError:  # another machine or container, or no permission
            continue
        disks.append(Disk(usage.free, usage.total))
    return min(disks, key=lambda disk: disk.free_bytes, default=None)
