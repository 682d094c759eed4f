"""The commands `consents ls|show`: who opted in or out, when, how, and by which text."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from onceward.cli.rendering import JsonOption, listing
from onceward.cli.session import opened_database, run

if TYPE_CHECKING:
    from uuid import UUID

    from onceward.db import Database

HOW = ("decision", "channel", "category", "source", "wording", "actor", "message", "decided_at")

group = typer.Typer(no_args_is_help=True, help="See who opted in or out: when, how, and by which text.")

OrganizationOption = Annotated[
    str | None, typer.Option("--organization", "-o", help="Slug or id of the organization. Default: the installation.")
]


class Decision(StrEnum):
    OPT_IN = "opt_in"
    OPT_OUT = "opt_out"


def register(cli: typer.Typer) -> None:
    cli.add_typer(group, name="consents")


async def _organization(db: Database, name: str | None) -> UUID | None:
    from onceward.trust import find_organization

    if name is None:
        return None
    async with db.acquire() as conn:
        return (await find_organization(conn, name)).organization_id


@group.command("ls")
def ls(
    organization: OrganizationOption = None,
    everywhere: Annotated[bool, typer.Option("--all", help="Of all organizations.")] = False,
    decision: Annotated[Decision | None, typer.Option(help="Only opt-ins, or only opt-outs.")] = None,
    before: Annotated[int | None, typer.Option(help="Only decisions with a smaller id: the next page.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="Maximum number of decisions.")] = 100,
    as_json: JsonOption = False,
) -> None:
    """List opt-ins and opt-outs, newest first. Of an erased person only a hash is left."""
    from onceward.messages.preferences import list_consents

    async def main() -> list[dict[str, Any]]:
        async with opened_database() as db:
            whose = await _organization(db, organization)
            return await list_consents(
                db, organization=whose, everywhere=everywhere, decision=decision, before=before, limit=limit
            )

    empty = "nobody has opted in or out"
    listing(run(main()), columns=("id", "recipient", *HOW, "organization_id"), as_json=as_json, empty=empty)


@group.command("show")
def show(
    recipient: Annotated[str, typer.Argument(help="Ref, address or number, as `ls` shows it.")],
    organization: OrganizationOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show every decision of one recipient, oldest first. The last one of a channel and category is in force."""
    from onceward.messages.preferences import consents

    async def main() -> list[dict[str, Any]]:
        async with opened_database() as db:
            whose = await _organization(db, organization)
            async with db.transaction(role="engine", organization=whose) as tx:
                return await consents(tx, recipient)

    empty = "this recipient has neither opted in nor out; see `onceward consents ls --all`"
    listing(run(main()), columns=("id", *HOW), as_json=as_json, empty=empty)
