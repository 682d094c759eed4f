"""`secrets`: accounts of organizations at outside services, and the keys that encrypt stored secrets."""

from __future__ import annotations

import sys
from dataclasses import asdict
from typing import Annotated, Any

import typer

from onceward.cli.exits import CommandFailed
from onceward.cli.rendering import JsonOption, listing, say
from onceward.cli.session import features_here, opened_database, run, settings_here

ACTOR = "operator:cli"
COLUMNS = ("organization_id", "name", "created_at", "changed_at")
OTHER_OWNERS = "select distinct owner from onceward.migrations where owner <> all($1) order by owner"
Organization = Annotated[str, typer.Argument(help="Slug or id of the organization.")]
Name = Annotated[str, typer.Argument(help="SERVICE.FIELD, such as twilio.auth_token.")]

group = typer.Typer(no_args_is_help=True, help="Secrets of organizations: `set`, `ls`, `rm`, `rotate`.")


def register(cli: typer.Typer) -> None:
    cli.add_typer(group, name="secrets")


@group.command("set")
def set_(
    organization: Organization,
    name: Name,
    custom: Annotated[
        bool, typer.Option("--custom", help="Allow a name that is not a field of a known service.")
    ] = False,
) -> None:
    """Store a secret of an organization. The value is read from standard input, or asked for on a terminal."""
    value = typer.prompt("Value", hide_input=True) if sys.stdin.isatty() else sys.stdin.read().removesuffix("\n")

    async def work() -> None:
        from onceward.trust import find_organization
        from onceward.trust.organization_secrets import check_name, set_secret
        from onceward.trust.secrets import secret_box

        check_name(name, custom=custom)
        async with opened_database() as db:
            async with db.acquire() as conn:
                row = await find_organization(conn, organization)
            box = secret_box(settings_here())
            async with db.transaction(organization=row.organization_id) as tx:
                await set_secret(tx, box, name, value.removesuffix("\r"), actor=ACTOR, custom=custom)

    run(work())
    say(f"secret {name} of {organization} is stored; running processes use it within 10 seconds")


@group.command("ls")
def ls(
    organization: Annotated[
        str | None, typer.Argument(help="Slug or id of the organization. Default: all organizations.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """List the names of secrets, without their values."""

    async def work() -> list[dict[str, Any]]:
        from onceward.trust import find_organization
        from onceward.trust.organization_secrets import list_secrets

        async with opened_database() as db:
            async with db.acquire() as conn:
                row = None if organization is None else await find_organization(conn, organization)
            return [asdict(each) for each in await list_secrets(db, None if row is None else row.organization_id)]

    listing(
        run(work()), columns=COLUMNS, as_json=as_json, empty="no secret is stored: `onceward secrets set` stores one"
    )


@group.command("rm")
def rm(organization: Organization, name: Name) -> None:
    """Delete a secret of an organization. Without its account, the organization uses the installation's."""

    async def work() -> None:
        from onceward.trust import find_organization
        from onceward.trust.organization_secrets import remove_secret

        async with opened_database() as db:
            async with db.acquire() as conn:
                row = await find_organization(conn, organization)
            async with db.transaction(organization=row.organization_id) as tx:
                await remove_secret(tx, name, actor=ACTOR)

    run(work())
    say(f"secret {name} of {organization} is deleted")


@group.command("rotate")
def rotate() -> None:
    """Encrypt all stored secrets with the first key of ONCEWARD_SECRET_KEY. You can then remove the other keys.

    A new key seals the audit log from then on.

    The columns of the app that ONCEWARD_APP names are included. Exits with 1 if the database has tables of another app.
    """

    async def work() -> tuple[int, list[str]]:
        from onceward.trust.chain_keys import add_key
        from onceward.trust.secrets import rotate, secret_box

        features = features_here()
        box = secret_box(settings_here())
        async with opened_database() as db:
            changed = await rotate(db, box, features.sealed)
            if changed:
                async with db.acquire() as conn:
                    await add_key(conn, box)
            rows = await db.fetch(OTHER_OWNERS, [line.owner for line in features.migrations])
        return changed, [row["owner"] for row in rows]

    changed, others = run(work())
    if others:
        raise CommandFailed(
            f"{changed} secrets were encrypted again, but the database also has tables of {', '.join(others)}, which "
            "this command does not know: keep the old keys, set ONCEWARD_APP to the app that has these tables, and "
            "run it again"
        )
    say(f"{changed} secrets were encrypted again; the first key now encrypts all secrets")
