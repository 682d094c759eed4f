"""`erase`: remove a person's data everywhere, keep the hashes."""

from __future__ import annotations

from typing import Annotated

import typer

from onceward.cli.rendering import JsonOption, document, say
from onceward.cli.session import features_here, opened_database, run


def register(cli: typer.Typer) -> None:
    cli.command("erase")(erase)


def erase(
    person: Annotated[str, typer.Option("--person", help="Address, phone number or user id of the person.")],
    reason: Annotated[str | None, typer.Option("--reason", help="Why; kept in the audit log.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Count what would go; change nothing.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Remove a person's data from every part that holds any, in one transaction. Cannot be undone."""

    async def work(*, dry: bool) -> dict[str, int]:
        from onceward.trust import COMMAND_LINE
        from onceward.trust.erase import erase

        erasers = [eraser for erasers in features_here().load("erasers") for eraser in erasers]
        async with opened_database() as db:
            return await erase(db, person, erasers, actor=COMMAND_LINE, reason=reason, dry_run=dry)

    if not dry_run and not yes:
        counts = run(work(dry=True))
        typer.confirm(f"{_said(counts)} would be erased and cannot be had back. Go on?", abort=True)
    counts = run(work(dry=dry_run))
    if as_json:
        document({"erased": counts, "dry_run": dry_run})
    else:
        say(f"{_said(counts)} {'would be' if dry_run else 'are'} erased")


def _said(counts: dict[str, int]) -> str:
    return ", ".join(f"{count} {what}" for what, count in counts.items())
