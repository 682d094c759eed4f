"""`secrets`: the keys that stored secrets are sealed with."""

from __future__ import annotations

import typer

from onceward.cli.rendering import say
from onceward.cli.session import features_here, opened_database, run

group = typer.Typer(no_args_is_help=True, help="Stored secrets: seal them anew under a new key.")


def register(cli: typer.Typer) -> None:
    cli.add_typer(group, name="secrets")
    group.callback()(_group)


def _group() -> None:
    """Stored secrets: seal them anew under a new key."""


@group.command("rotate")
def rotate() -> None:
    """Seal everything under the first key of ONCEWARD_SECRET_KEY. Afterwards the other keys can be dropped."""

    async def work() -> int:
        from onceward.settings import load_settings
        from onceward.trust.secrets import rotate, secret_box

        async with opened_database() as db:
            return await rotate(db, secret_box(load_settings()), features_here().sealed)

    say(f"{run(work())} secrets sealed anew; all are under the first key now")
