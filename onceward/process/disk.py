"""Watch the size of the database and the free space of its disk, and say so before the disk is full."""

from __future__ import annotations

import logging
from pathlib import Path

from onceward.background import Loop
from onceward.context import Context
from onceward.db import Database
from onceward.db.disk import DatabaseSize, measure
from onceward.process.metrics import DATABASE_BYTES, DISK_FREE, DISK_TOTAL, TABLE_BYTES
from onceward.telemetry import get_logger

log = get_logger("onceward.process")

EVERY_S = 60.0


class DiskWatch:
    """Measures, sets the gauges, and logs when the free space becomes low or recovers."""

    def __init__(self, db: Database, directory: Path | None) -> None:
        self._db = db
        self._directory = directory
        self._level = "ok"

    async def step(self) -> DatabaseSize:
        async with self._db.acquire() as conn:
            size = await measure(conn, self._directory)
        DATABASE_BYTES.set(size.bytes)
        TABLE_BYTES.clear()
        for table, bytes in size.tables.items():
            TABLE_BYTES.labels(table).set(bytes)
        if size.disk is not None:
            DISK_FREE.set(size.disk.free_bytes)
            DISK_TOTAL.set(size.disk.total_bytes)
            self._report(size)
        return size

    def _report(self, size: DatabaseSize) -> None:
        assert size.disk is not None
        level, before = size.disk.level, self._level
        self._level = level
        if level == before:
            return
        largest = max(size.tables, key=lambda name: size.tables[name], default=None)
        if level == "ok":
            log.info("disk.recovered", free_bytes=size.disk.free_bytes)
        else:
            log.log(
                logging.ERROR if level == "fail" else logging.WARNING,
                "disk.low",
                free_bytes=size.disk.free_bytes,
                database_bytes=size.bytes,
                largest_table=largest,
                hint="free some space or enlarge the disk: PostgreSQL stops when it is full",
            )


def disk_watch(context: Context) -> Loop:
    """Return the loop that watches the disk."""
    directory = context.settings.data_dir / "pg" if context.settings.database_url is None else None
    return Loop("disk", DiskWatch(context.database, directory).step, every_s=EVERY_S)
