"""`migrate`: bring the schema to where this version needs it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from onceward.cli.loading import BUNDLED, AppArgument, load_app
from onceward.cli.rendering import JsonOption, listing
from onceward.cli.session import configure_process, opened, run

if TYPE_CHECKING:
    from onceward.db import Migration
    from onceward.settings import Settings


def register(cli: typer.Typer) -> None:
    cli.command("migrate")(migrate)


def migrate(
    app: AppArgument = BUNDLED,
    plan: Annotated[bool, typer.Option("--plan", help="Only list what is pending; change nothing.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Apply pending migrations of the engine and of the app. Safe to run from many nodes at once."""
    from onceward.settings import load_settings

    settings = load_settings()
    configure_process(settings)
    found = run(_migrate(app, settings, only_plan=plan))
    state = "pending" if plan else "applied"
    rows = [{"owner": item.owner, "number": item.number, "name": item.name, "state": state} for item in found]
    listing(rows, columns=("owner", "number", "name", "state"), as_json=as_json, empty="nothing is pending")


async def _migrate(path: str, settings: Settings, *, only_plan: bool) -> list[Migration]:
    async with opened(settings, load_app(path)) as opening:
        pending = await opening.pending_migrations()
        return pending if only_plan or not pending else await opening.migrate()
