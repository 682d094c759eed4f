"""`migrate`: apply pending migrations and function files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from onceward.cli.app_loader import AppArgument, load_app
from onceward.cli.rendering import JsonOption, listing
from onceward.cli.session import configure_process, features_here, features_with, opened, run, settings_here
from onceward.feature import Migrations

if TYPE_CHECKING:
    from onceward.db import Pending
    from onceward.settings import Settings


def register(cli: typer.Typer) -> None:
    cli.command("migrate")(migrate)


def migrate(
    app: AppArgument = None,
    plan: Annotated[bool, typer.Option("--plan", help="Only list what is pending; change nothing.")] = False,
    reapply_functions: Annotated[
        bool,
        typer.Option(
            "--reapply-functions",
            help="Also apply functions of which the database has a newer version: after a rollback.",
        ),
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Apply pending migrations and functions of the engine and of the app. Safe to run from many nodes at once.

    A file that contracts the schema is deferred while a process runs that needs what it removes: run the command again
    when all nodes have the new version.
    """

    settings = settings_here()
    configure_process(settings)
    features = features_here() if app is None else features_with(load_app(app))
    applied, pending = run(_migrate(features.migrations, settings, only_plan=plan, reapply_functions=reapply_functions))
    states = [(item, "applied") for item in applied] + [(item, "pending" if plan else "deferred") for item in pending]
    rows = [
        {
            "owner": item.owner,
            "name": item.name,
            "file": str(item),
            "kind": getattr(item, "kind", "function"),
            "state": state,
        }
        for item, state in states
    ]
    listing(rows, columns=("file", "kind", "state"), as_json=as_json, empty="no migration and no function is pending")


async def _migrate(
    migrations: Sequence[Migrations], settings: Settings, *, only_plan: bool, reapply_functions: bool
) -> tuple[list[Pending], list[Pending]]:
    """Return what was applied, and what is still pending."""
    async with opened(settings, migrations, as_owner=True) as configured:
        pending = await configured.pending_migrations(reapply_functions=reapply_functions)
        if only_plan:
            return [], pending
        if not (pending or configured.has_runtime_login or await configured.missing_privileges()):
            return [], []
        applied = await configured.migrate(reapply_functions=reapply_functions)
        # Read again: another process may have applied the files while this one waited for it.
        return applied, await configured.pending_migrations()
