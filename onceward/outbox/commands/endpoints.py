"""`endpoints`: where outbound webhooks go. A signing secret is printed once, when it is made."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import asdict
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any
from uuid import UUID

import typer

from onceward.cli.exits import CommandFailed, Exit
from onceward.cli.rendering import JsonOption, document, listing, say
from onceward.cli.session import run

if TYPE_CHECKING:
    from onceward.outbox import Outbox

ACTOR = "operator:cli"
COLUMNS = ("endpoint_id", "url", "events", "active", "disabled_reason", "organization_id")

group = typer.Typer(
    no_args_is_help=True,
    help="Outbound webhooks: `add`, `ls`, `show`, `set`, `rotate`, `disable`, `enable`, `rm`, `test`, `recover`, `types`.",
)
Organization = Annotated[str | None, typer.Option("--organization", "-o", help="Slug or id; none: the platform's.")]
Id = Annotated[UUID, typer.Argument(metavar="ENDPOINT", help="Id of the endpoint.")]


def register(cli: typer.Typer) -> None:
    cli.add_typer(group, name="endpoints")


@asynccontextmanager
async def opened_outbox(organization: str | None) -> AsyncGenerator[tuple[Outbox, UUID | None]]:
    """The outbox of the configured database, and the organization that was named."""
    from onceward.cli.session import opened_database
    from onceward.outbox import Catalogue
    from onceward.outbox.parts import outbox_for_commands
    from onceward.settings import load_settings
    from onceward.trust import find_organization
    from onceward.trust.secrets import secret_box

    async with opened_database() as db:
        found = None
        if organization is not None:
            async with db.acquire() as conn:
                found = (await find_organization(conn, organization)).organization_id
        settings = load_settings()
        outbox = outbox_for_commands(db, settings, secret_box(settings), Catalogue())
        try:
            yield outbox, found
        finally:
            await outbox.client.aclose()


@group.command("add")
def add(
    url: Annotated[str, typer.Argument(help="https address that webhooks are sent to.")],
    events: Annotated[list[str] | None, typer.Option("--event", "-e", help="A type, `prefix.*` or `*` (all).")] = None,
    organization: Organization = None,
    secret: Annotated[str | None, typer.Option("--secret", help="Signing secret; made if not given.")] = None,
    description: Annotated[str, typer.Option("--description", help="What it is for.")] = "",
    channels: Annotated[list[str] | None, typer.Option("--channel", help="Only events of this channel.")] = None,
    headers: Annotated[list[str] | None, typer.Option("--header", help="NAME=VALUE to send along.")] = None,
    owner: Annotated[str | None, typer.Option("--owner", help="Mail address that is told when it is disabled.")] = None,
    in_flight: Annotated[int | None, typer.Option("--max-in-flight", help="At most so many at once.")] = None,
    rate: Annotated[float | None, typer.Option("--rate", help="At most so many a second.")] = None,
    ordered: Annotated[bool, typer.Option("--ordered", help="One at a time, in order.")] = False,
    ed25519: Annotated[
        bool, typer.Option("--ed25519", help="Also sign with the organization's key pair (v1a).")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Register an endpoint and print its signing secret, this once."""
    pairs = [each.partition("=") for each in headers or ()]
    if wrong := [name for name, equals, _ in pairs if not equals]:
        raise CommandFailed(f"--header {wrong[0]!r} must be written NAME=VALUE", Exit.USAGE)

    async def work() -> dict[str, Any]:
        from onceward.outbox import EndpointFields

        fields = EndpointFields(
            url=url,
            events=events or ["*"],
            secret=secret,
            description=description,
            channels=channels or None,
            headers={name: value for name, _, value in pairs},
            owner=owner,
            max_in_flight=in_flight,
            rate_per_s=rate,
            ordered=ordered,
            ed25519=ed25519,
        )
        async with opened_outbox(organization) as (outbox, found):
            made = await outbox.endpoints.register(found, fields, actor=ACTOR)
            return {"endpoint": asdict(made.endpoint), "secret": made.secret}

    made = run(work())
    if as_json:
        document(made)
    else:
        say(f"{made['endpoint']['endpoint_id']}  {made['secret']}")


@group.command("ls")
def ls(organization: Organization = None, as_json: JsonOption = False) -> None:
    """List endpoints: of an organization, or of all."""

    async def work() -> list[dict[str, Any]]:
        async with opened_outbox(organization) as (outbox, found):
            return [asdict(each) for each in await outbox.endpoints.list(found, all_organizations=organization is None)]

    listing(run(work()), columns=COLUMNS, as_json=as_json, empty="no endpoints")


@group.command("show")
def show(endpoint: Id, organization: Organization = None) -> None:
    """Print everything about one endpoint but its secrets."""

    async def work() -> dict[str, Any]:
        async with opened_outbox(organization) as (outbox, found):
            return asdict(await outbox.endpoints.get(found, endpoint))

    document(run(work()))


@group.command("set")
def change(
    endpoint: Id,
    organization: Organization = None,
    url: Annotated[str | None, typer.Option("--url", help="Another address.")] = None,
    events: Annotated[list[str] | None, typer.Option("--event", "-e", help="Types instead of those before.")] = None,
    owner: Annotated[str | None, typer.Option("--owner", help="Who is told when it is disabled.")] = None,
    in_flight: Annotated[int | None, typer.Option("--max-in-flight", help="At most so many at once.")] = None,
    rate: Annotated[float | None, typer.Option("--rate", help="At most so many a second.")] = None,
) -> None:
    """Change an endpoint; what is not given stays."""
    given = {"url": url, "events": events, "owner": owner, "max_in_flight": in_flight, "rate_per_s": rate}

    async def work() -> None:
        changes = {name: value for name, value in given.items() if value is not None}
        async with opened_outbox(organization) as (outbox, found):
            await outbox.endpoints.change(found, endpoint, changes, actor=ACTOR)

    run(work())
    say("changed")


@group.command("rotate")
def rotate(
    endpoint: Id,
    organization: Organization = None,
    hours: Annotated[float, typer.Option("--overlap-hours", min=0, help="So long the old one signs along.")] = 24,
) -> None:
    """Make a new signing secret and print it, this once."""

    async def work() -> str:
        async with opened_outbox(organization) as (outbox, found):
            return await outbox.endpoints.rotate_secret(found, endpoint, actor=ACTOR, overlap=timedelta(hours=hours))

    say(run(work()))


@group.command("disable")
def disable(endpoint: Id, organization: Organization = None) -> None:
    """Send nothing more to it."""

    async def work() -> bool:
        async with opened_outbox(organization) as (outbox, found):
            return await outbox.endpoints.disable(found, endpoint, actor=ACTOR)

    say("disabled" if run(work()) else "it was disabled already")


@group.command("enable")
def enable(endpoint: Id, organization: Organization = None) -> None:
    """Send to it again; `recover` sends what it missed."""

    async def work() -> bool:
        async with opened_outbox(organization) as (outbox, found):
            return await outbox.endpoints.enable(found, endpoint, actor=ACTOR)

    say("enabled" if run(work()) else "it was enabled already")


@group.command("rm")
def remove(endpoint: Id, organization: Organization = None) -> None:
    """Delete an endpoint and its secrets; what was sent stays readable."""

    async def work() -> None:
        async with opened_outbox(organization) as (outbox, found):
            await outbox.endpoints.delete(found, endpoint, actor=ACTOR)

    run(work())
    say("deleted")


@group.command("test")
def send_test(
    endpoint: Id,
    organization: Organization = None,
    type: Annotated[str, typer.Option("--type", help="Whose sample is sent.")] = "endpoint.test",
) -> None:
    """Send it a sample event; a running worker delivers it."""

    async def work() -> str:
        async with opened_outbox(organization) as (outbox, found):
            return (await outbox.send_test(found, endpoint, actor=ACTOR, type=type)).message_id

    say(f"{run(work())} is on its way: onceward deliveries ls")


@group.command("recover")
def recover(
    endpoint: Id,
    since: Annotated[datetime, typer.Option("--since", help="From when on, UTC.")],
    organization: Organization = None,
    rate: Annotated[float, typer.Option("--rate", help="So many a second.")] = 100.0,
) -> None:
    """Send again what did not arrive since a time, and what it missed while disabled."""

    async def work() -> int:
        from datetime import UTC

        from onceward.outbox import resends

        async with opened_outbox(organization) as (outbox, found):
            started = await resends.start(
                outbox.db,
                found,
                verb="recover",
                endpoint_id=endpoint,
                since=since.replace(tzinfo=since.tzinfo or UTC),
                rate_per_s=rate,
                actor=ACTOR,
            )
            return started.id

    say(f"resend {run(work())} has begun: onceward deliveries resends")


@group.command("types")
def types(as_json: JsonOption = False) -> None:
    """List the event types that endpoints may ask for."""

    async def work() -> list[dict[str, Any]]:
        from onceward.outbox.catalogue import known

        async with opened_outbox(None) as (outbox, _), outbox.db.acquire() as conn:
            return [
                {
                    "name": each.name,
                    "description": each.description,
                    "declared_by": each.declared_by,
                    "schema": each.schema,
                    "sample": each.sample,
                }
                for each in await known(conn)
            ]

    listing(run(work()), columns=("name", "description", "declared_by"), as_json=as_json)
