"""`payments accounts add|ls`: accounts at payment services."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer

from onceward.cli.app_commands import ACTOR, OrganizationOption
from onceward.cli.exits import CommandFailed
from onceward.cli.rendering import JsonOption, listing, say
from onceward.cli.session import opened_database, run, settings_here

ACCOUNT_COLUMNS = ("name", "service", "organization_id", "source", "connected_account", "listed_at", "checked")
accounts = typer.Typer(no_args_is_help=True, help="Accounts at payment services: `add` one, `ls` them.")


@accounts.command("add")
def add_account(
    name: Annotated[str, typer.Argument(help="Name of the account, as the app calls it.")],
    organization: OrganizationOption,
    service: Annotated[str, typer.Option("--service", "-s", help="The payment service; see `integrations ls`.")],
    secret: Annotated[
        str | None, typer.Option("--secret", help="The secret that signs its webhooks; `-` reads standard input.")
    ] = None,
    option: Annotated[
        list[str] | None,
        typer.Option("--option", help="PATH=VALUE of the webhook source; the service's page lists them."),
    ] = None,
    connected: Annotated[
        str | None, typer.Option("--connected", help="Id of an account that is connected to the platform's.")
    ] = None,
    source: Annotated[
        str | None, typer.Option("--source", help="With --connected: the webhook source of the platform's account.")
    ] = None,
) -> None:
    """Add an account of an organization, with a webhook source of its own. Prints what to enter at the service."""
    from onceward.webhooks.samples import parse_field

    given = sys.stdin.readline().strip() if secret == "-" else secret
    options = dict(parse_field(each) for each in option or ())

    async def work() -> Any:
        from onceward.errors import OncewardError
        from onceward.payments.accounts import add_account as add
        from onceward.trust import find_organization
        from onceward.trust.secrets import secret_box

        async with opened_database() as db, db.transaction(role="engine") as tx:
            owner = await find_organization(tx.conn, organization)
            try:
                return await add(
                    tx,
                    secret_box(settings_here()),
                    name=name,
                    service=service,
                    organization=owner.organization_id,
                    slug=owner.slug,
                    secrets=() if given is None else (given,),
                    options=options,
                    connected_account=connected,
                    source=source,
                    actor=ACTOR,
                )
            except OncewardError as error:
                raise CommandFailed(str(error)) from error

    added = run(work())
    say(f"{name} is ready. Enter this address at {service}: {settings_here().url}{added.path}")
    say(f"It must send: {', '.join(added.event_types)}")


@accounts.command("ls")
def list_accounts(as_json: JsonOption = False) -> None:
    """List the accounts of all organizations, and those of the installation."""

    async def work() -> list[dict[str, Any]]:
        from onceward.payments.accounts import list_accounts as listed

        async with opened_database() as db, db.transaction(role="engine") as tx:
            return await listed(tx, organization=None)

    listing(run(work()), columns=ACCOUNT_COLUMNS, as_json=as_json, empty="no payment accounts")
