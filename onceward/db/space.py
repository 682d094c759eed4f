"""What tables and indexes occupy, how much of it is free, and what keeps a vacuum from freeing more.

The sizes of free space are estimates from the planner's statistics, so that no extension is needed and nothing is
scanned.
"""

from __future__ import annotations

from dataclasses import dataclass

from onceward.db.transaction import Connection
from onceward.statements import read_statement

TABLES = read_statement("db", "table_space")
INDEXES = read_statement("db", "index_space")
HOLDERS = read_statement("db", "snapshot_holders")
LEFT_OVER = read_statement("db", "left_over_indexes")

LARGE_ROWS = 1_000_000
LARGEST_SCALE_FACTOR = 0.05
MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class TableSpace:
    """A table. `free_bytes` is the estimated space inside it that new rows reuse; it is not returned to the disk."""

    name: str
    bytes: int
    free_bytes: int
    live_rows: int
    dead_rows: int
    scale_factor: float
    autovacuum: bool

    @property
    def dead_share(self) -> float:
        return self.dead_rows / max(self.live_rows + self.dead_rows, 1)


@dataclass(frozen=True, slots=True)
class IndexSpace:
    """An index of a table. `free_bytes` is the estimated space that a rebuild returns."""

    name: str
    table: str
    bytes: int
    free_bytes: int

    @property
    def worth_rebuilding(self) -> bool:
        """Whether a rebuild returns at least 8 MiB and half of the index."""
        return self.free_bytes >= 8 * MIB and self.free_bytes * 2 >= self.bytes


@dataclass(frozen=True, slots=True)
class SnapshotHolder:
    """Something that keeps rows which were deleted after its start: a transaction, a prepared one or a replication
    slot."""

    kind: str
    name: str
    age_s: float


async def tables(conn: Connection) -> list[TableSpace]:
    """Return all tables of this database outside the system schemas, the largest first."""
    return [TableSpace(**dict(row)) for row in await conn.fetch(TABLES)]


async def indexes(conn: Connection) -> list[IndexSpace]:
    """Return all btree indexes of these tables, those with the most free space first."""
    return [IndexSpace(**dict(row)) for row in await conn.fetch(INDEXES)]


async def snapshot_holders(conn: Connection, *, older_than_s: float) -> list[SnapshotHolder]:
    """Return what has kept old rows for longer than `older_than_s`, the oldest first."""
    return [SnapshotHolder(**dict(row)) for row in await conn.fetch(HOLDERS, older_than_s)]


async def left_over_indexes(conn: Connection) -> list[str]:
    """Return the quoted names of invalid indexes that an interrupted concurrent rebuild has left behind."""
    return [row["name"] for row in await conn.fetch(LEFT_OVER)]
