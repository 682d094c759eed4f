"""`secrets`: rotate the keys that encrypt stored secrets."""

from __future__ import annotations

import typer

from onceward.cli.rendering import say
from onceward.cli.session import features_here, opened_database, run

group = typer.Typer(no_args_is_help=True, help="Stored secrets: encrypt them with a new key.")


def register(cli: typer.Typer) -> None:
    cli.add_typer(group, name="secrets")
    group.callback()(_group)


def _group() -> None:
    """Stored secrets: encrypt them with a new key."""


@group.command("rotate")
def rotate() -> None:
    """Encrypt all stored secrets with the first key of ONCEWARD_SECRET_KEY. You can then remove the other keys."""

    async def work() -> int:
        from onceward.settings import load_settings
        from onceward.trust.secrets import rotate, secret_box

        async with opened_database() as db:
            return await rotate(db, secret_box(load_settings()), features_here().sealed)

    say(f"{run(work())} secrets were encrypted again; the first key now encrypts all secrets")
