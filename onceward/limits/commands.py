"""`limits ls|set|reconcile`: show slots in use, set the global limit, delete slots of ended work."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

import typer

from onceward.cli.rendering import JsonOption, listing, say
from onceward.cli.session import opened_database, run

COLUMNS = ("key", "organization_id", "held", "at_most", "oldest")

group = typer.Typer(no_args_is_help=True, help="Limits: admission slots in use, and the global limit.")


def register(cli: typer.Typer) -> None:
    cli.add_typer(group, name="limits")


@group.command("ls")
def ls(
    limit: Annotated[int, typer.Option("--limit", min=1, max=1000)] = 100,
    as_json: JsonOption = False,
) -> None:
    """List the keys with slots in use, most slots first."""
    from onceward.limits import held

    async def load() -> list[Any]:
        async with opened_database() as db:
            return await held(db, most=limit)

    listing([asdict(each) for each in run(load())], columns=COLUMNS, as_json=as_json, empty="no slots are in use")


@group.command("set")
def set_limit(
    at_most: Annotated[
        int, typer.Argument(metavar="NUMBER", help="The number of slots for all keys together.", min=1, max=1000)
    ],
) -> None:
    """Set the global limit. From this value it continues to follow the load, within its bounds."""
    from onceward.limits import set_global

    async def change() -> None:
        async with opened_database() as db:
            await set_global(db, at_most, actor="operator:cli")

    run(change())
    say(f"the global limit is {at_most}")


@group.command("reconcile")
def reconcile() -> None:
    """Delete the slots of ended work. Workers do this every five minutes."""
    from onceward.limits import reconcile

    async def tidy() -> int:
        async with opened_database() as db:
            return await reconcile(db)

    say(f"{run(tidy())} slots of ended work were deleted")
