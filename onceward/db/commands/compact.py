"""`db compact`: vacuum tables, rebuild indexes that are mostly empty, and report the space that tables keep for new
rows."""

from __future__ import annotations

import re
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from onceward.cli.exits import CommandFailed, Exit
from onceward.cli.progress import progress
from onceward.cli.rendering import JsonOption, document, listing, say
from onceward.cli.session import opened_database, run

if TYPE_CHECKING:
    from onceward.db import Connection
    from onceward.db.space import IndexSpace, TableSpace

MIB = 1024 * 1024
SHOWN_FROM = MIB
FEW_DEAD = 1000


def register(group: typer.Typer) -> None:
    group.command("compact")(compact)


def compact(
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show sizes and what would be done.")] = False,
    full: Annotated[
        list[str] | None,
        typer.Option(
            "--full",
            metavar="TABLE",
            help=(
                "Rewrite this table (VACUUM FULL): returns its free space to the disk, but nobody can read or write "
                "the table meanwhile. Can be repeated."
            ),
        ),
    ] = None,
    lock_timeout_s: Annotated[
        float,
        typer.Option(
            "--lock-timeout",
            min=0.1,
            max=3600,
            help="With --full: give up after waiting this many seconds for the table.",
        ),
    ] = 5.0,
    yes: Annotated[bool, typer.Option("--yes", help="With --full: do not ask.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Remove dead rows and rebuild indexes that are mostly empty, while everything keeps running.

    New rows reuse the free space inside tables. Only --full returns it to the disk.
    """
    for table in full or ():
        if not re.fullmatch(r"[a-z_][a-z0-9_]*\.[a-z_][a-z0-9_]*", table):
            raise CommandFailed(f"--full {table}: give the schema and the table, such as onceward.jobs", Exit.USAGE)
    if full and not dry_run and not yes:
        typer.confirm(f"Nobody can read or write {', '.join(full)} until it is rewritten. Continue?", abort=True)
    report = run(_compact(dry_run=dry_run, full=full or [], lock_timeout_s=lock_timeout_s))
    if as_json:
        document(report)
        return
    rows = [_readable(row) for row in report["tables"] if row["bytes"] >= SHOWN_FROM]
    listing(rows, columns=("name", "size", "reusable", "dead_rows"), as_json=False, empty="all tables are small")
    for line in report["done"]:
        say(("would be done: " if dry_run else "") + line)
    if not report["done"]:
        say("nothing to do: no table has many dead rows, and no index is mostly empty")


async def _compact(*, dry_run: bool, full: list[str], lock_timeout_s: float) -> dict[str, Any]:
    from onceward.db import space

    async with opened_database(as_owner=True) as db:
        # A connection of its own: vacuum and rebuilds run outside transactions and for as long as they need.
        conn = await db.connect(application_name="onceward db compact")
        try:
            tables = await space.tables(conn)
            unknown = sorted(set(full) - {table.name for table in tables})
            if unknown:
                raise CommandFailed(f"--full {', '.join(unknown)}: there is no such table", Exit.USAGE)
            steps = _steps(tables, await space.indexes(conn), await space.left_over_indexes(conn), full)
            if not dry_run:
                await conn.execute("select set_config('statement_timeout', '0', false)")
                with progress() as tell:
                    for statement, text in steps:
                        tell(text)
                        await _execute(conn, statement, lock_timeout_s)
                tables = await space.tables(conn)
            return {"tables": [asdict(table) for table in tables], "done": [text for _, text in steps]}
        finally:
            await conn.close()


def _steps(
    tables: list[TableSpace], indexes: list[IndexSpace], left_over: list[str], full: list[str]
) -> list[tuple[str, str]]:
    """Return the statements and what each does, in the order in which they run."""
    steps = [
        (f"drop index concurrently {name}", f"drop {name}, left over from an interrupted rebuild") for name in left_over
    ]
    for table in tables:
        if table.name in full:
            steps.append((f"vacuum (full, analyze) {table.name}", f"rewrite {table.name} ({_mib(table.bytes)})"))
        elif table.dead_rows >= FEW_DEAD:
            steps.append((f"vacuum (analyze) {table.name}", f"remove {table.dead_rows} dead rows from {table.name}"))
    for index in indexes:
        if index.worth_rebuilding and index.table not in full:
            text = f"rebuild {index.name} ({_mib(index.bytes)}, about {_mib(index.free_bytes)} are free)"
            steps.append((f"reindex index concurrently {index.name}", text))
    return steps


async def _execute(conn: Connection, statement: str, lock_timeout_s: float) -> None:
    from asyncpg import LockNotAvailableError

    whole = statement.startswith("vacuum (full")
    await conn.execute(
        "select set_config('lock_timeout', $1, false)", f"{int(lock_timeout_s * 1000) if whole else 0}ms"
    )
    try:
        await conn.execute(statement)
    except LockNotAvailableError:
        raise CommandFailed(
            f"{statement}: the table was in use for longer than {lock_timeout_s:g} s; nothing was changed in it"
        ) from None


def _readable(row: dict[str, Any]) -> dict[str, Any]:
    return {**row, "size": _mib(row["bytes"]), "reusable": _mib(row["free_bytes"])}


def _mib(bytes: int) -> str:
    return f"{bytes / MIB:.1f} MiB"
