"""`erase` and `export`: remove a person's data from an organization, or print all of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from onceward.cli.progress import progress
from onceward.cli.rendering import JsonOption, document, listing, say
from onceward.cli.session import features_here, opened_database, run

if TYPE_CHECKING:
    from uuid import UUID

    from onceward.db import Database
    from onceward.trust.erase import Eraser, ErasureReport

PersonOption = Annotated[
    list[str],
    typer.Option("--person", help="Email address, phone number (+4912345678) or id of the person; can be repeated."),
]
OrganizationOption = Annotated[
    str | None, typer.Option("--organization", "-o", help="Slug or id of the organization to search.")
]
InstanceOption = Annotated[
    bool,
    typer.Option("--instance", help="Search data that belongs to no organization, and close the person's account."),
]


def register(cli: typer.Typer) -> None:
    cli.command("erase")(erase)
    cli.command("export")(export)


def erase(
    person: PersonOption,
    organization: OrganizationOption = None,
    instance: InstanceOption = False,
    reason: Annotated[str | None, typer.Option("--reason", help="Reason, which is written to the audit log.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Report what would be erased; change nothing.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")] = False,
    background: Annotated[
        bool, typer.Option("--background", help="Let the running processes read the tables; do not wait for them.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Remove a person's data from one organization. This cannot be undone.

    The command first shows what it would erase and asks for confirmation. It erases at once what indexes lead to, and
    then reads the tables in turns. If it is stopped, the running processes continue.
    """
    _one_scope(organization, instance=instance)

    async def work(*, dry: bool) -> ErasureReport:
        from onceward.trust import COMMAND_LINE
        from onceward.trust.erase import erase

        async with opened_database() as db:
            with progress() as tell:
                return await erase(
                    db,
                    person,
                    _erasers(),
                    organization=await _organization_id(db, organization),
                    actor=COMMAND_LINE,
                    reason=reason,
                    dry_run=dry,
                    wait=not background,
                    progress=lambda search: tell(f"{search.examined:,} rows read, now {search.table}"),
                )

    if not dry_run and not yes:
        _show(run(work(dry=True)))
        typer.confirm("Erase this? It cannot be undone.", abort=True)
    report = run(work(dry=dry_run))
    if as_json:
        document(report.as_json())
    else:
        _show(report)
        if background and not dry_run:
            say(
                "The running processes read the tables now. The audit log records `person.erased` when they have ended."
            )


def export(
    person: PersonOption,
    organization: OrganizationOption = None,
    instance: InstanceOption = False,
) -> None:
    """Print everything that one organization holds about a person, as one JSON document."""
    _one_scope(organization, instance=instance)

    async def work() -> dict[str, Any]:
        from onceward.trust import COMMAND_LINE
        from onceward.trust.export import export

        async with opened_database() as db:
            with progress() as tell:
                return await export(
                    db,
                    person,
                    _erasers(),
                    organization=await _organization_id(db, organization),
                    actor=COMMAND_LINE,
                    progress=lambda eraser, examined: tell(f"{examined:,} rows read, now {eraser.table}"),
                )

    document(run(work()))


def _one_scope(organization: str | None, *, instance: bool) -> None:
    if (organization is None) != instance:
        raise typer.BadParameter("give either --organization, or --instance for data that belongs to no organization")


def _erasers() -> list[Eraser]:
    return [eraser for erasers in features_here().load("erasers") for eraser in erasers]


async def _organization_id(db: Database, organization: str | None) -> UUID | None:
    from onceward.trust import find_organization

    if organization is None:
        return None
    async with db.acquire() as conn:
        return (await find_organization(conn, organization)).organization_id


def _show(report: ErasureReport) -> None:
    rows = [
        {
            "data": each.name,
            "rows": each.rows if each.kept is None else 0,
            "still needed": each.waiting,
            "kept": each.rows if each.kept else 0,
            "found in": ", ".join(f"{each.table}.{column} ({count})" for column, count in each.columns.items()),
            "why kept": each.kept or "",
        }
        for each in report.found
    ]
    listing(
        rows,
        columns=("data", "rows", "still needed", "kept", "found in", "why kept"),
        as_json=False,
        empty="no data was found",
    )
    if report.also_known_as:
        say(
            f"The same rows also contain: {', '.join(report.also_known_as)}. Run the command again with --person for "
            "each of these that belongs to the same person."
        )
    total = sum(report.rows.values())
    say(f"{total} rows {'would be' if report.dry_run else 'were'} erased")
    if any(each.waiting for each in report.found):
        say(
            "Unfinished work still needs some of these rows, so they were kept. Erase again when the work has finished."
        )
