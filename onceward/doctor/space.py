"""The checks of `onceward doctor` about dead rows: are they removed in time, and does something keep them?"""

from __future__ import annotations

from pathlib import Path

from onceward.db import Connection, space
from onceward.db.disk import GIB, measure
from onceward.doctor.finding import Finding

OLD_SNAPSHOT_S = 900.0
MANY_DEAD = 100_000


async def check_vacuum(conn: Connection) -> Finding:
    """Check that autovacuum runs, often enough for large tables, and that it keeps up."""
    tables = await space.tables(conn)
    off = [table.name for table in tables if not table.autovacuum]
    if off:
        remedy = "switch on `autovacuum` in postgresql.conf and for the table: without it tables grow without end"
        return Finding("vacuum", "fail", f"autovacuum is off for {_names(off)}", remedy)
    behind = [table for table in tables if table.dead_rows > MANY_DEAD and table.dead_share > 0.2]
    if behind:
        text = ", ".join(f"{table.name} ({table.dead_rows} dead rows)" for table in behind[:5])
        remedy = (
            "look for old transactions (the next check), raise autovacuum_vacuum_cost_limit, or run "
            "`onceward db compact`"
        )
        return Finding("vacuum", "warn", f"autovacuum is behind: {text}", remedy)
    late = [
        table.name
        for table in tables
        if table.live_rows > space.LARGE_ROWS and table.scale_factor > space.LARGEST_SCALE_FACTOR
    ]
    if late:
        remedy = f"alter table {late[0]} set (autovacuum_vacuum_scale_factor = 0.02)"
        return Finding("vacuum", "warn", f"autovacuum starts late in large tables: {_names(late)}", remedy)
    return Finding("vacuum", "ok", f"autovacuum keeps up with {len(tables)} tables")


async def check_old_snapshots(conn: Connection) -> Finding:
    """Check that no transaction, prepared transaction or unused replication slot keeps dead rows."""
    holders = await space.snapshot_holders(conn, older_than_s=OLD_SNAPSHOT_S)
    if holders:
        text = ", ".join(f"{each.kind} {each.name}, {_age(each.age_s)}" for each in holders[:5])
        remedy = (
            "end it (`select pg_terminate_backend(pid)`, `rollback prepared`, `pg_drop_replication_slot`), and"
            " set idle_in_transaction_session_timeout"
        )
        return Finding("old snapshots", "warn", f"dead rows cannot be removed because of {text}", remedy)
    return Finding("old snapshots", "ok", "no transaction is older than 15 minutes")


async def check_size(conn: Connection, directory: Path | None) -> Finding:
    """Show the size of the database and of its largest tables, and check the free space of the server where it is
    known."""
    size = await measure(conn, directory)
    largest = sorted(size.tables.items(), key=lambda each: -each[1])[:3]
    text = f"{_bytes(size.bytes)}, largest: " + ", ".join(f"{name} {_bytes(bytes)}" for name, bytes in largest)
    if size.disk is None:
        return Finding("size", "ok", f"{text}; the free space of the server is not known here")
    text += f"; {_bytes(size.disk.free_bytes)} of {_bytes(size.disk.total_bytes)} free on the disk of the server"
    remedy = "free some space or enlarge the disk: PostgreSQL stops when it is full"
    return Finding("size", size.disk.level, text, "" if size.disk.level == "ok" else remedy)


def _bytes(count: int) -> str:
    return f"{count / GIB:.1f} GiB" if count >= GIB // 10 else f"{count / 1024**2:.0f} MiB"


def _names(names: list[str]) -> str:
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")


def _age(seconds: float) -> str:
    return "for an unknown time" if seconds == float("inf") else f"open for {seconds / 60:.0f} min"
