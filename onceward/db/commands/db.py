"""`db dump|restore|upgrade|psql|status|processes|reset|compact`: move the data, for example from the embedded
database to a server, or inspect it."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from onceward.cli.exits import CommandFailed
from onceward.cli.rendering import say
from onceward.cli.session import features_here, opened_database, run, settings_here
from onceward.db.commands import compact, schema
from onceward.private_files import FILE_MODE
from onceward.settings.database_url import libpq_variables

if TYPE_CHECKING:
    from onceward.db import Database

group = typer.Typer(
    no_args_is_help=True,
    help=(
        "Move, inspect or reset the data: `dump`, `restore`, `upgrade`, `psql`, `status`, `processes`, "
        "`reset`, `compact`."
    ),
)


def register(cli: typer.Typer) -> None:
    schema.register(group)
    compact.register(group)
    cli.add_typer(group, name="db")


@group.command("dump")
def dump(
    file: Annotated[Path, typer.Argument(help="File to write, in PostgreSQL's custom format.")],
    force: Annotated[bool, typer.Option("--force", help="Replace an existing file.")] = False,
) -> None:
    """Write a consistent snapshot of the whole database to a file, while everything keeps running.

    Only you may read the file. `pg_restore` of the server's version can read it too, if the programs of that version
    are installed.
    """
    if file.exists() and not force:
        raise CommandFailed(f"{file} exists: choose another name, or replace it with --force")
    unfinished = file.with_name(file.name + ".unfinished")
    unfinished.unlink(missing_ok=True)
    unfinished.touch(mode=FILE_MODE)
    run(_dump(unfinished.absolute()))
    unfinished.replace(file)
    say(f"wrote {file} ({file.stat().st_size / 1024 / 1024:.1f} MiB)")


@group.command("restore")
def restore(
    file: Annotated[Path, typer.Argument(help="File that `onceward db dump` wrote.", exists=True, dir_okay=False)],
    yes: Annotated[bool, typer.Option("--yes", help="Replace existing data without asking.")] = False,
) -> None:
    """Replace the content of the database with a dump. If anything fails, nothing is changed.

    Refused while processes of Onceward run on the database.
    """
    run(_restore(file.absolute(), yes=yes))
    say(f"restored {file}")


async def _restore(file: Path, *, yes: bool) -> None:
    """Create the roles, and restore in one transaction.

    No process starts while its session lasts (`process/unfinished.py`).
    """
    from onceward.db.programs import ServerAbilities, restore_dump, restorer_for

    options = ("--clean", "--if-exists", "--no-owner")
    async with opened_database(as_owner=True) as db:
        variables = libpq_variables(db.url)
        await _refuse_while_running(db)
        if not yes:
            name, host = variables["PGDATABASE"], variables.get("PGHOST", "this machine")
            typer.confirm(
                f"This replaces everything in the database {name!r} on {host} that the dump contains. Continue?",
                abort=True,
            )
        server = await ServerAbilities.read(db)
        restorer = await restorer_for(file, server.major)
        for script in (each.before for each in features_here().migrations if each.before is not None):
            await db.execute(script.read_text(encoding="utf-8"))
        await restore_dump(restorer, *options, file=file, server=server, url=db.url)


async def _refuse_while_running(db: Database) -> None:
    from onceward.db.processes import running_processes

    running = await running_processes(db)
    if running:
        raise CommandFailed(
            f"processes run on this database: {'; '.join(map(str, running))}. Stop them first (one that was killed "
            "counts for a minute), and run `onceward after-restore` afterwards"
        )


@group.command("upgrade")
def upgrade(
    old_programs: Annotated[
        Path | None,
        typer.Option(
            "--old-programs", help="Directory with the programs of the PostgreSQL version that wrote the data."
        ),
    ] = None,
) -> None:
    """Upgrade the embedded database from an older PostgreSQL to the embedded version. The old data are kept."""
    from onceward.db.embedded.data_switch import NOTE
    from onceward.db.embedded.upgrade import upgrade as upgrade_embedded

    settings = settings_here()
    if settings.database_url is not None:
        raise CommandFailed("ONCEWARD_DATABASE_URL is set: this command upgrades the embedded database only")
    if not any((settings.data_dir / name).exists() for name in ("pg", NOTE)):
        raise CommandFailed(f"{settings.data_dir} contains no embedded database")
    upgraded = upgrade_embedded(settings.data_dir, old_programs=old_programs)
    if upgraded.before is None:
        say(f"nothing to do: PostgreSQL {upgraded.after} wrote the data")
    else:
        say(
            f"upgraded from PostgreSQL {upgraded.before} to {upgraded.after}; the old data are in {upgraded.old_data}: "
            f"remove them when you no longer need them"
        )


@group.command("psql", context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def psql(context: typer.Context) -> None:
    """Open `psql` on the configured database. All further arguments are passed to `psql`."""
    code = run(_interactive("psql", *context.args))
    raise typer.Exit(code)


async def _interactive(program: str, *options: str) -> int:
    """Run a PostgreSQL program in the terminal until it ends. Ctrl-C goes to the program."""
    import asyncio

    from onceward.db.programs import program_for

    async with opened_database(as_owner=True) as database:
        path = (await program_for(program, 0)).path
        environment = {**os.environ, **libpq_variables(database.url)}
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)
        try:
            process = await asyncio.create_subprocess_exec(str(path), *options, env=environment)
            return await process.wait()
        finally:
            signal.signal(signal.SIGINT, before)


async def _dump(file: Path) -> None:
    from onceward.db.programs import ServerAbilities, program_for, run_program

    async with opened_database(as_owner=True) as db:
        # A dump that is made while a command runs must not bring back the note of that command.
        options = ("--format=custom", "--no-owner", "--exclude-table-data=onceward.unfinished_commands")
        program = await program_for("pg_dump", (await ServerAbilities.read(db)).major)
        await run_program(program.path, *options, f"--file={file}", url=db.url)
