"""`sql-workers`: database logins of workers in other languages that handle the events of one organization."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

import typer

from onceward.cli.rendering import JsonOption, document, listing, say
from onceward.cli.session import opened_database, run

ACTOR = "operator:cli"
COLUMNS = ("login", "organization", "created_at")

group = typer.Typer(
    no_args_is_help=True, help="Database logins of workers in other languages, for one organization each."
)
Login = Annotated[str, typer.Argument(help="Name of the login, from a-z, 0-9 and _.")]


def register(cli: typer.Typer) -> None:
    cli.add_typer(group, name="sql-workers")


@group.command("add")
def add(
    login: Login,
    organization: Annotated[str, typer.Option("--organization", "-o", help="Slug or id of the organization.")],
    as_json: JsonOption = False,
) -> None:
    """Create a login that handles only events of the organization's external sources, and print its password once.

    Uses ONCEWARD_MIGRATION_URL, because only the owner of the tables may create a login.
    """

    async def work() -> dict[str, Any]:
        from onceward.inbox.worker_logins import add_login
        from onceward.trust import find_organization

        async with opened_database(as_owner=True) as db, db.transaction(role="engine") as tx:
            row = await find_organization(tx.conn, organization)
            password = await add_login(tx, login, organization=row.organization_id, actor=ACTOR)
        return {
            "login": login,
            "password": password,
            "organization": row.slug,
        }

    added = run(work())
    if as_json:
        document(added)
    else:
        say(f"{login} handles the events of {added['organization']}. Its password, which is shown only now:")
        say(added["password"])


@group.command("ls")
def ls(as_json: JsonOption = False) -> None:
    """List the logins and their organizations."""

    async def work() -> list[dict[str, Any]]:
        from onceward.inbox.worker_logins import list_logins

        async with opened_database() as db, db.acquire() as conn:
            return [asdict(each) for each in await list_logins(conn)]

    listing(
        run(work()),
        columns=COLUMNS,
        as_json=as_json,
        empty="no organization has a worker of its own: `onceward sql-workers add` adds one",
    )


@group.command("rm")
def rm(login: Login) -> None:
    """Remove a login and end its sessions. Events that it holds return when their claim expires."""

    async def work() -> None:
        from onceward.inbox.worker_logins import remove_login

        async with opened_database(as_owner=True) as db, db.transaction(role="engine") as tx:
            await remove_login(tx, login, actor=ACTOR)

    run(work())
    say(f"{login} is removed")
