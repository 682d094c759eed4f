"""`migrate`: apply pending migrations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from onceward.cli.loading import AppArgument, load_app
from onceward.cli.rendering import JsonOption, listing
from onceward.cli.session import configure_process, features_here, features_with, opened, run
from onceward.feature import Migrations

if TYPE_CHECKING:
    from onceward.db import Migration
    from onceward.settings import Settings


def register(cli: typer.Typer) -> None:
    cli.command("migrate")(migrate)


def migrate(
    app: AppArgument = None,
    plan: Annotated[bool, typer.Option("--plan", help="Only list pending migrations; change nothing.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Apply pending migrations of the engine and of the app. Safe to run from many nodes at once."""
    from onceward.settings import load_settings

    settings = load_settings()
    configure_process(settings)
    features = features_here() if app is None else features_with(load_app(app))
    migrations = run(_migrate(features.migrations, settings, only_plan=plan))
    state = "pending" if plan else "applied"
    rows = [{"owner": item.owner, "number": item.number, "name": item.name, "state": state} for item in migrations]
    listing(rows, columns=("owner", "number", "name", "state"), as_json=as_json, empty="no migration is pending")


async def _migrate(migrations: Sequence[Migrations], settings: Settings, *, only_plan: bool) -> list[Migration]:
    async with opened(settings, migrations) as configured:
        pending = await configured.pending_migrations()
        return pending if only_plan or not pending else await configured.migrate()
