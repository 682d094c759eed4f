"""`keys`: API keys. The command prints a key only once, when it creates the key."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

import typer

from onceward.cli.exits import CommandFailed, Exit
from onceward.cli.rendering import JsonOption, document, listing, say
from onceward.cli.session import opened_database, run

ACTOR = "operator:cli"
COLUMNS = (
    "prefix",
    "name",
    "scopes",
    "apps",
    "sources",
    "addresses",
    "organization_id",
    "last_used_at",
    "expires_at",
    "revoked_at",
)

group = typer.Typer(no_args_is_help=True, help="API keys: `add`, `ls`, `revoke`.")


def register(cli: typer.Typer) -> None:
    cli.add_typer(group, name="keys")


@group.command("add")
def add(
    name: Annotated[str, typer.Argument(help="Purpose of the key.")],
    organization: Annotated[
        str | None, typer.Option("--organization", "-o", help="Slug or id of the organization.")
    ] = None,
    scope: Annotated[
        list[str] | None,
        typer.Option(
            "--scope",
            help="viewer, operator or owner, or a single permission: publish, message, enqueue, replay, refund, scan;"
            " admin for the whole instance. May be repeated. Default: viewer.",
        ),
    ] = None,
    app: Annotated[list[str] | None, typer.Option("--app", help="Limit the key to this app. May be repeated.")] = None,
    source: Annotated[
        list[str] | None, typer.Option("--source", help="Limit the key to this source. May be repeated.")
    ] = None,
    address: Annotated[
        list[str] | None,
        typer.Option("--address", help="Let the key work from this address or network only. May be repeated."),
    ] = None,
    days: Annotated[
        float, typer.Option("--days", min=0, help="Number of days until the key expires; 0 means never.")
    ] = 365,
    as_json: JsonOption = False,
) -> None:
    """Create a key for an organization, or with `--scope admin` for the whole instance."""
    scopes = scope or ["viewer"]
    if (organization is None) != ("admin" in scopes):
        raise CommandFailed("give either --organization, or --scope admin for the whole instance", Exit.USAGE)
    expires_at = None if days == 0 else datetime.now(UTC) + timedelta(days=days)

    async def work() -> dict[str, Any]:
        from onceward.trust import find_organization
        from onceward.trust.key_restrictions import KeyRestrictions
        from onceward.trust.keys import create_key

        async with opened_database() as db, db.transaction(role="engine") as tx:
            row = None if organization is None else await find_organization(tx.conn, organization)
            created = await create_key(
                tx,
                name=name,
                organization=None if row is None else row.organization_id,
                scopes=scopes,
                restrictions=KeyRestrictions.checked(app or (), source or (), address or ()),
                expires_at=expires_at,
                actor=ACTOR,
            )
        return {"secret": created.text, "key": asdict(created.key)}

    created = run(work())
    if as_json:
        document(created)
    else:
        say(created["secret"])


@group.command("ls")
def ls(
    organization: Annotated[
        str | None, typer.Option("--organization", "-o", help="Slug or id of the organization. Default: all.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """List keys. Only the prefix of each key is stored in readable form."""

    async def work() -> list[dict[str, Any]]:
        from onceward.trust import find_organization
        from onceward.trust.keys import list_keys

        async with opened_database() as db, db.acquire() as conn:
            row = None if organization is None else await find_organization(conn, organization)
            keys = await list_keys(conn, organization=None if row is None else row.organization_id)
            return [asdict(key) for key in keys]

    listing(run(work()), columns=COLUMNS, as_json=as_json, empty="no API key exists: `onceward keys add` creates one")


@group.command("revoke")
def revoke(
    key: Annotated[str, typer.Argument(help="Prefix or id of the key.")],
    reason: Annotated[str | None, typer.Option("--reason", help="Reason, which is written to the audit log.")] = None,
) -> None:
    """Revoke a key permanently."""

    async def work() -> str:
        from onceward.trust.keys import revoke_key

        async with opened_database() as db, db.transaction(role="engine") as tx:
            return (await revoke_key(tx, key, organization=None, actor=ACTOR, reason=reason)).prefix

    say(f"key {run(work())} is revoked")
