"""`endpoints`: manage the endpoints of outbound webhooks. A signing secret is printed once, when it is created."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import asdict
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast
from uuid import UUID

import typer

from onceward.cli.exits import CommandFailed, Exit
from onceward.cli.rendering import JsonOption, document, listing, say
from onceward.cli.session import run, settings_here

if TYPE_CHECKING:
    from onceward.outbox import Outbox

ACTOR = "operator:cli"
COLUMNS = ("endpoint_id", "url", "events", "active", "disabled_reason", "organization_id")

group = typer.Typer(
    no_args_is_help=True,
    help=(
        "Outbound webhooks: `add`, `ls`, `show`, `set`, `rotate`, `disable`, `enable`, `rm`, `test`, "
        "`recover`, `types`."
    ),
)
Organization = Annotated[
    str | None, typer.Option("--organization", "-o", help="Slug or id. Default: the platform itself.")
]
Id = Annotated[UUID, typer.Argument(metavar="ENDPOINT", help="Id of the endpoint.")]

AuthFile = Annotated[
    Path | None,
    typer.Option("--auth", help="JSON file: OAuth client credentials or a client certificate (docs/outbox.md)."),
]


def register(cli: typer.Typer) -> None:
    cli.add_typer(group, name="endpoints")


@asynccontextmanager
async def opened_outbox(organization: str | None) -> AsyncGenerator[tuple[Outbox, UUID | None]]:
    """Open the outbox of the configured database. Yields it with the id of the given organization."""
    from onceward.cli.session import opened_database
    from onceward.outbox import Catalogue
    from onceward.outbox.parts import outbox_for_commands
    from onceward.trust import find_organization
    from onceward.trust.secrets import secret_box

    async with opened_database() as db:
        organization_id = None
        if organization is not None:
            async with db.acquire() as conn:
                organization_id = (await find_organization(conn, organization)).organization_id
        settings = settings_here()
        outbox = outbox_for_commands(db, settings, secret_box(settings), Catalogue())
        try:
            yield outbox, organization_id
        finally:
            await outbox.client.aclose()


def _read_auth(path: Path | None) -> dict[str, Any] | None:
    """Return the settings in a file, so that secrets are in no argument of a process."""
    if path is None:
        return None
    try:
        read = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise CommandFailed(f"--auth {path}: {error}", Exit.USAGE) from None
    if not isinstance(read, dict):
        raise CommandFailed(f'--auth {path}: must be a JSON object such as {{"kind": "oauth", ...}}', Exit.USAGE)
    return cast("dict[str, Any]", read)


@group.command("add")
def add(
    url: Annotated[str, typer.Argument(help="The https address that receives the webhooks.")],
    events: Annotated[
        list[str] | None, typer.Option("--event", "-e", help="An event type, `prefix.*` or `*` (all).")
    ] = None,
    organization: Organization = None,
    secret: Annotated[str | None, typer.Option("--secret", help="Signing secret. Default: generated.")] = None,
    description: Annotated[str, typer.Option("--description", help="What the endpoint is for.")] = "",
    channels: Annotated[list[str] | None, typer.Option("--channel", help="Only events of this channel.")] = None,
    headers: Annotated[list[str] | None, typer.Option("--header", help="NAME=VALUE, sent with every webhook.")] = None,
    owner: Annotated[str | None, typer.Option("--owner", help="Mail address for notices about this endpoint.")] = None,
    in_flight: Annotated[
        int | None, typer.Option("--max-in-flight", help="Maximum number of concurrent requests.")
    ] = None,
    rate: Annotated[float | None, typer.Option("--rate", help="Maximum deliveries per second.")] = None,
    ordered: Annotated[bool, typer.Option("--ordered", help="Send one delivery at a time, in order.")] = False,
    ed25519: Annotated[
        bool, typer.Option("--ed25519", help="Also sign with the organization's key pair (v1a).")
    ] = False,
    filter: Annotated[
        str | None, typer.Option("--filter", help="JMESPath: send only events for which it is true.")
    ] = None,
    transform: Annotated[str | None, typer.Option("--transform", help="JMESPath: send its result as the body.")] = None,
    source: Annotated[
        str | None, typer.Option("--source", help="Forward the events of this inbound source (mode forward).")
    ] = None,
    auth_file: AuthFile = None,
    as_json: JsonOption = False,
) -> None:
    """Register an endpoint and print its signing secret, which is never shown again."""
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
            filter=filter,
            transform=transform,
            source=source,
            auth=_read_auth(auth_file),
        )
        async with opened_outbox(organization) as (outbox, organization_id):
            created = await outbox.endpoints.register(organization_id, fields, actor=ACTOR)
            return {"endpoint": asdict(created.endpoint), "secret": created.secret}

    created = run(work())
    if as_json:
        document(created)
    else:
        say(f"{created['endpoint']['endpoint_id']}  {created['secret']}")


@group.command("ls")
def ls(
    organization: Organization = None,
    after: Annotated[
        UUID | None, typer.Option("--after", help="Only endpoints after the one with this id: the next page.")
    ] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, max=100_000, help="Maximum number of endpoints.")] = 1000,
    as_json: JsonOption = False,
) -> None:
    """List the endpoints of one organization, or of all, oldest first."""

    async def work() -> list[dict[str, Any]]:
        async with opened_outbox(organization) as (outbox, organization_id):
            return [
                asdict(each)
                for each in await outbox.endpoints.list(
                    organization_id, all_organizations=organization is None, after=after, limit=limit
                )
            ]

    listing(run(work()), columns=COLUMNS, as_json=as_json, empty="no endpoints")


@group.command("show")
def show(endpoint: Id, organization: Organization = None) -> None:
    """Print everything about one endpoint except its secrets."""

    async def work() -> dict[str, Any]:
        async with opened_outbox(organization) as (outbox, organization_id):
            return asdict(await outbox.endpoints.get(organization_id, endpoint))

    document(run(work()))


@group.command("set")
def change(
    endpoint: Id,
    organization: Organization = None,
    url: Annotated[str | None, typer.Option("--url", help="New address.")] = None,
    events: Annotated[
        list[str] | None, typer.Option("--event", "-e", help="New event types; they replace the old ones.")
    ] = None,
    owner: Annotated[str | None, typer.Option("--owner", help="New mail address for notices.")] = None,
    in_flight: Annotated[
        int | None, typer.Option("--max-in-flight", help="Maximum number of concurrent requests.")
    ] = None,
    rate: Annotated[float | None, typer.Option("--rate", help="Maximum deliveries per second.")] = None,
    filter: Annotated[str | None, typer.Option("--filter", help="New filter; an empty text removes it.")] = None,
    transform: Annotated[
        str | None, typer.Option("--transform", help="New transformation; an empty text removes it.")
    ] = None,
    auth_file: AuthFile = None,
) -> None:
    """Change an endpoint. Options that you omit keep their value."""
    given = {
        "url": url,
        "events": events,
        "owner": owner,
        "max_in_flight": in_flight,
        "rate_per_s": rate,
        "auth": _read_auth(auth_file),
    }

    async def work() -> None:
        changes = {name: value for name, value in given.items() if value is not None}
        changes |= {
            name: text or None for name, text in (("filter", filter), ("transform", transform)) if text is not None
        }
        async with opened_outbox(organization) as (outbox, organization_id):
            await outbox.endpoints.change(organization_id, endpoint, changes, actor=ACTOR)

    run(work())
    say("changed")


@group.command("rotate")
def rotate(
    endpoint: Id,
    organization: Organization = None,
    hours: Annotated[float, typer.Option("--overlap-hours", min=0, help="How long the old secret also signs.")] = 24,
) -> None:
    """Create a new signing secret and print it. It is never shown again."""

    async def work() -> str:
        async with opened_outbox(organization) as (outbox, organization_id):
            return await outbox.endpoints.rotate_secret(
                organization_id, endpoint, actor=ACTOR, overlap=timedelta(hours=hours)
            )

    say(run(work()))


@group.command("disable")
def disable(endpoint: Id, organization: Organization = None) -> None:
    """Stop sending to an endpoint."""

    async def work() -> bool:
        async with opened_outbox(organization) as (outbox, organization_id):
            return await outbox.endpoints.disable(organization_id, endpoint, actor=ACTOR)

    say("disabled" if run(work()) else "the endpoint was already disabled")


@group.command("enable")
def enable(endpoint: Id, organization: Organization = None) -> None:
    """Start sending to an endpoint again. `recover` sends what it missed."""

    async def work() -> bool:
        async with opened_outbox(organization) as (outbox, organization_id):
            return await outbox.endpoints.enable(organization_id, endpoint, actor=ACTOR)

    say("enabled" if run(work()) else "the endpoint was already enabled")


@group.command("rm")
def remove(endpoint: Id, organization: Organization = None) -> None:
    """Delete an endpoint and its secrets. The history of its deliveries stays readable."""

    async def work() -> None:
        async with opened_outbox(organization) as (outbox, organization_id):
            await outbox.endpoints.delete(organization_id, endpoint, actor=ACTOR)

    run(work())
    say("deleted")


@group.command("test")
def send_test(
    endpoint: Id,
    organization: Organization = None,
    type: Annotated[str, typer.Option("--type", help="The event type whose sample is sent.")] = "endpoint.test",
) -> None:
    """Send a sample event to an endpoint. A running worker delivers it."""

    async def work() -> str:
        async with opened_outbox(organization) as (outbox, organization_id):
            return (await outbox.send_test(organization_id, endpoint, actor=ACTOR, type=type)).message_id

    say(f"{run(work())} is queued; see its deliveries with: onceward deliveries ls")


@group.command("recover")
def recover(
    endpoint: Id,
    since: Annotated[datetime, typer.Option("--since", help="Start of the period, in UTC.")],
    organization: Organization = None,
    rate: Annotated[float, typer.Option("--rate", help="Deliveries per second.")] = 100.0,
) -> None:
    """Send again what an endpoint has not received since a time, also events published while it was disabled."""

    async def work() -> int:
        from datetime import UTC

        from onceward.outbox import resends

        async with opened_outbox(organization) as (outbox, organization_id):
            started = await resends.start(
                outbox.db,
                organization_id,
                verb="recover",
                endpoint_id=endpoint,
                since=since.replace(tzinfo=since.tzinfo or UTC),
                rate_per_s=rate,
                actor=ACTOR,
            )
            return started.id

    say(f"resend {run(work())} started; see its progress with: onceward deliveries resends")


@group.command("types")
def types(as_json: JsonOption = False) -> None:
    """List the event types that endpoints can subscribe to."""

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

    listing(
        run(work()), columns=("name", "description", "declared_by"), as_json=as_json, empty="no event type is declared"
    )
