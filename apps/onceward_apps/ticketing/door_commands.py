"""`onceward ticketing door` and `doors`: links for the people at the door."""

from __future__ import annotations

from typing import Annotated, Any
from uuid import UUID

import typer

from onceward.cli import ACTOR, JsonOption, OrganizationOption, listing, run, say
from onceward_apps.ticketing.commands import EventArgument, acting


def add_door(
    event: EventArgument,
    organization: OrganizationOption,
    name: Annotated[str, typer.Option("--name", help="Name of the door, for example North.")],
) -> None:
    """Open a door of an event and print its link, which scans tickets of this event only."""
    from onceward_apps.ticketing import doors

    async def work() -> str:
        async with acting(organization) as tx:
            return await doors.url(tx, (await doors.add(tx, event, name, actor=ACTOR))["id"])

    say(run(work()))


def list_doors(event: EventArgument, organization: OrganizationOption, as_json: JsonOption = False) -> None:
    """List the doors of an event."""
    from onceward_apps.ticketing.store import doors

    async def work() -> list[dict[str, Any]]:
        async with acting(organization) as tx:
            return [dict(row) for row in await doors.of_event(tx, event)]

    listing(run(work()), columns=("id", "name", "created_at", "seen_at", "ended_at"), as_json=as_json)


def end_door(
    door: Annotated[UUID, typer.Argument(metavar="DOOR", help="Id of the door.")], organization: OrganizationOption
) -> None:
    """End a door: its link stops working at once."""
    from onceward_apps.ticketing import doors

    async def work() -> None:
        async with acting(organization) as tx:
            await doors.end(tx, door, actor=ACTOR)

    run(work())
    say(f"door {door} is ended")


def add_to(group: typer.Typer) -> None:
    """Add the commands to `onceward ticketing`."""
    group.command("door")(add_door)
    group.command("doors")(list_doors)
    group.command("end-door")(end_door)
