"""`keys`: API keys. The key itself is printed once, when it is made."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

import typer

from onceward.cli.exits import CommandFailed, Exit
from onceward.cli.rendering import JsonOption, document, listing, say
from onceward.cli.session import opened_database, run

ACTOR = "operator:cli"
COLUMNS = ("prefix", "name", "scopes", "organization_id", "last_used_at", "expires_at", "revoked_at")

group = typer.Typer(no_args_is_help=True, help="API keys: `add`, `ls`, `revoke`.")


def register(cli: typer.Typer) -> None:
    cli.add_typer(group, name="keys")


@group.command("add")
def add(
    name: Annotated[str, typer.Argument(help="What the key is for.")],
    organization: Annotated[str | None, typer.Option("--organization", "-o", help="Slug or id.")] = None,
    scope: Annotated[
        str, typer.Option("--scope", help="viewer, operator or owner; admin for the instance.")
    ] = "viewer",
    days: Annotated[float | None, typer.Option("--days", min=0, help="Expires after so many days.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Make a key for an organization, or with `--scope admin` for the whole instance."""
    if (organization is None) != (scope == "admin"):
        raise CommandFailed("say --organization, or --scope admin for the whole instance", Exit.USAGE)
    expires_at = None if days is None else datetime.now(UTC) + timedelta(days=days)

    async def work() -> dict[str, Any]:
        from onceward.trust import find_organization
        from onceward.trust.keys import create_key

        async with opened_database() as db, db.transaction(role="engine") as tx:
            found = None if organization is None else await find_organization(tx.conn, organization)
            made = await create_key(
                tx,
                name=name,
                organization=None if found is None else found.organization_id,
                scopes=[scope],
                expires_at=expires_at,
                actor=ACTOR,
            )
        return {"secret": made.text, "key": asdict(made.key)}

    made = run(work())
    if as_json:
        document(made)
    else:
        say(made["secret"])


@group.command("ls")
def ls(
    organization: Annotated[
        str | None, typer.Option("--organization", "-o", help="Slug or id; all if not given.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """List keys; of a key itself only the prefix is known."""

    async def work() -> list[dict[str, Any]]:
        from onceward.trust import find_organization
        from onceward.trust.keys import list_keys

        async with opened_database() as db, db.acquire() as conn:
            found = None if organization is None else await find_organization(conn, organization)
            keys = await list_keys(conn, organization=None if found is None else found.organization_id)
            return [asdict(key) for key in keys]

    listing(run(work()), columns=COLUMNS, as_json=as_json)


@group.command("revoke")
def revoke(
    key: Annotated[str, typer.Argument(help="Prefix or id of the key.")],
    reason: Annotated[str | None, typer.Option("--reason", help="Why; kept in the audit log.")] = None,
) -> None:
    """Stop a key for good."""

    async def work() -> str:
        from onceward.trust.keys import revoke_key

        async with opened_database() as db, db.transaction(role="engine") as tx:
            return (await revoke_key(tx, key, organization=None, actor=ACTOR, reason=reason)).prefix

    say(f"{run(work())} is revoked")
