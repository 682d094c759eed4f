"""`db status|processes|reset`: compare the schema with the code and with running processes, and empty a development
database."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from onceward.cli.app_loader import AppArgument, load_app
from onceward.cli.exits import CommandFailed, Exit
from onceward.cli.rendering import JsonOption, document, listing, say
from onceward.cli.session import (
    configure_process,
    features_here,
    features_with,
    opened,
    opened_database,
    run,
    settings_here,
)

if TYPE_CHECKING:
    from onceward.db.status import OwnerStatus
    from onceward.feature import Features
    from onceward.settings import Settings

PRODUCTION = "production"


def register(group: typer.Typer) -> None:
    group.command("status")(status)
    group.command("processes")(processes)
    group.command("reset")(reset)


def status(app: AppArgument = None, as_json: JsonOption = False) -> None:
    """Show for each package which migrations and functions are pending. Changes nothing."""

    settings = settings_here(log_level="warning")
    configure_process(settings)
    owners = run(_status(settings, _features(app)))
    if as_json:
        document([asdict(owner) for owner in owners])
        return
    columns = (
        "owner",
        "migrations",
        "pending migrations",
        "functions",
        "pending functions",
        "newer in the database",
        "no file",
    )
    rows = [
        {
            "owner": owner.owner,
            "migrations": owner.migrations,
            "pending migrations": ", ".join(owner.pending_migrations) or "none",
            "functions": owner.functions,
            "pending functions": ", ".join(owner.pending_functions) or "none",
            "newer in the database": ", ".join(owner.newer_functions) or "none",
            "no file": ", ".join(owner.functions_without_file) or "none",
        }
        for owner in owners
    ]
    listing(rows, columns=columns, as_json=False)


async def _status(settings: Settings, features: Features) -> list[OwnerStatus]:
    from onceward.db.status import status as compare

    async with opened(settings, as_owner=True) as configured, configured.database.acquire() as conn:
        return await compare(conn, features.migrations)


def processes(as_json: JsonOption = False) -> None:
    """List the processes that use the database, with their version and the last migration that each knows of each
    package."""
    rows = run(_processes())
    if as_json:
        document(rows)
        return
    for row in rows:
        row["knows"] = ", ".join(f"{owner} {number:04d}" for owner, number in sorted(row["knows"].items()))
        row["failing"] = ", ".join(f"{loop} ({error})" for loop, error in sorted(row["failing"].items()))
        row["running"] = "yes" if row["running"] else "not seen for a minute"
    columns = ("service", "host", "pid", "version", "started_at", "running", "failing", "knows")
    listing(rows, columns=columns, as_json=False, empty="no process has noted itself")


async def _processes() -> list[dict[str, Any]]:
    from onceward.db.processes import COUNTS_FOR_S, LIST

    async with opened_database() as db:
        return [dict(row) for row in await db.fetch(LIST, COUNTS_FOR_S)]


def reset(
    app: AppArgument = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask. Works for the embedded database only.")] = False,
    database_name: Annotated[
        str | None,
        typer.Option("--database-name", help="Name of the database on your own server, as a confirmation."),
    ] = None,
) -> None:
    """Drop all tables of Onceward and of the app with their data, and create them again. For development only."""

    settings = settings_here(log_level="warning")
    configure_process(settings)
    if settings.environment == PRODUCTION:
        raise CommandFailed(f"ONCEWARD_ENVIRONMENT is {PRODUCTION}: this command deletes all data and is refused")
    say(run(_reset(settings, _features(app), yes=yes, database_name=database_name)))


async def _reset(settings: Settings, features: Features, *, yes: bool, database_name: str | None) -> str:
    from onceward.db.reset import drop_everything

    async with opened(settings, features.migrations, as_owner=True) as configured:
        actual = str(await configured.database.fetchval("select current_database()"))
        if settings.database_url is not None and database_name is None:
            raise CommandFailed(
                f"ONCEWARD_DATABASE_URL names a database on a server: to delete its data, add --database-name {actual}",
                Exit.USAGE,
            )
        if database_name is None and not yes:
            database_name = typer.prompt(f"This deletes all data in {settings.data_dir}. Type {actual} to continue")
        if database_name is not None and database_name != actual:
            raise CommandFailed(f"nothing was deleted: the database is {actual!r}, not {database_name!r}", Exit.USAGE)
        async with configured.direct_connection() as conn:
            await drop_everything(conn, features.migrations)
        applied = await configured.migrate()
    return f"database {actual} is empty: applied {len(applied)} migrations and function files"


def _features(app: str | None) -> Features:
    return features_here() if app is None else features_with(load_app(app))
