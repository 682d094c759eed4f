"""`sql-logins`: database logins of programs in other languages, each for one organization."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

import typer

from onceward.cli.rendering import JsonOption, document, listing, say
from onceward.cli.session import opened_database, run

ACTOR = "operator:cli"
COLUMNS = ("login", "organization", "may", "created_at")
WHAT = {"work": "handles the events of", "produce": "enqueues, publishes and sends for"}

group = typer.Typer(
    no_args_is_help=True, help="Database logins of programs in other languages, for one organization each."
)
Login = Annotated[str, typer.Argument(help="Name of the login, from a-z, 0-9 and _.")]


def register(cli: typer.Typer) -> None:
    cli.add_typer(group, name="sql-logins")


@group.command("add")
def add(
    login: Login,
    organization: Annotated[str, typer.Option("--organization", "-o", help="Slug or id of the organization.")],
    may: Annotated[
        list[str] | None,
        typer.Option(
            "--may",
            help="work (handle events of the organization's external sources; the default) or produce (enqueue jobs,"
            " publish events, send messages). Repeat it for both.",
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Create a login that belongs to one organization, and print its password once.

    Uses ONCEWARD_MIGRATION_URL, because only the owner of the tables may create a login.
    """
    from onceward.trust.sql_logins import RIGHTS, Right

    rights: list[Right] = [right for right in RIGHTS if right in (may or ["work"])]
    if unknown := sorted(set(may or []) - set(RIGHTS)):
        raise typer.BadParameter(f"--may {unknown[0]} is unknown: use {' or '.join(RIGHTS)}")

    async def create() -> dict[str, Any]:
        from onceward.trust import find_organization
        from onceward.trust.sql_logins import add_login

        async with opened_database(as_owner=True) as db, db.transaction(role="engine") as tx:
            row = await find_organization(tx.conn, organization)
            password = await add_login(tx, login, organization=row.organization_id, may=rights, actor=ACTOR)
        return {
            "login": login,
            "password": password,
            "organization": row.slug,
            "may": rights,
        }

    added = run(create())
    if as_json:
        document(added)
        return
    what = " and ".join(WHAT[right] for right in rights)
    say(f"{login} {what} {added['organization']}. Its password, which is shown only now:")
    say(added["password"])


@group.command("ls")
def ls(as_json: JsonOption = False) -> None:
    """List the logins, their organizations and what they may do."""

    async def work() -> list[dict[str, Any]]:
        from onceward.trust.sql_logins import list_logins

        async with opened_database() as db, db.acquire() as conn:
            return [asdict(each) for each in await list_logins(conn)]

    listing(
        run(work()),
        columns=COLUMNS,
        as_json=as_json,
        empty="no organization has a login of its own: `onceward sql-logins add` adds one",
    )


@group.command("rm")
def rm(login: Login) -> None:
    """Remove a login and end its sessions. Events that it holds return when their claim expires."""

    async def work() -> None:
        from onceward.trust.sql_logins import remove_login

        async with opened_database(as_owner=True) as db, db.transaction(role="engine") as tx:
            await remove_login(tx, login, actor=ACTOR)

    run(work())
    say(f"{login} is removed")
