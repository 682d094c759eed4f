"""`audit`: read the audit log and prove that nobody has changed it."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from onceward.cli.exits import CommandFailed, Exit
from onceward.cli.progress import progress
from onceward.cli.rendering import JsonOption, document, listing, say, verdict
from onceward.cli.session import opened_database, run, settings_here

COLUMNS = ("id", "at", "actor", "action", "entity_type", "entity_id", "reason")

group = typer.Typer(
    no_args_is_help=True, help="The audit log: `ls` lists entries, `verify` proves that none was changed."
)


def register(cli: typer.Typer) -> None:
    cli.add_typer(group, name="audit")


@group.command("ls")
def ls(
    organization: Annotated[
        str | None, typer.Option("--organization", "-o", help="Slug or id of the organization. Default: all.")
    ] = None,
    action: Annotated[str | None, typer.Option(help="Only this action.")] = None,
    entity_type: Annotated[str | None, typer.Option(help="Only entities of this type.")] = None,
    entity_id: Annotated[str | None, typer.Option(help="Only this entity.")] = None,
    before: Annotated[int | None, typer.Option(help="Only entries older than the entry with this id.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=10000, help="Maximum number of entries.")] = 50,
    as_json: JsonOption = False,
) -> None:
    """List entries, newest first."""

    async def work() -> list[dict[str, Any]]:
        from onceward.trust import find_organization, list_entries

        async with opened_database() as db, db.acquire() as conn:
            row = None if organization is None else await find_organization(conn, organization)
            entries = await list_entries(
                conn,
                organization=None if row is None else row.organization_id,
                action=action,
                entity_type=entity_type,
                entity_id=entity_id,
                before=before,
                limit=limit,
            )
            return [asdict(entry) for entry in entries]

    listing(run(work()), columns=COLUMNS, as_json=as_json, empty="no entry of the audit log matches")


@group.command("verify")
def verify(
    head: Annotated[
        list[str] | None,
        typer.Option("--head", help="A head that was logged earlier and must be in the chain; can be repeated."),
    ] = None,
    anchors: Annotated[
        list[Path] | None,
        typer.Option(
            "--anchors",
            exists=True,
            dir_okay=False,
            help="A file with heads that must be in the chain, for example a log; can be repeated.",
        ),
    ] = None,
    full: Annotated[
        bool, typer.Option("--full", help="Check every entry again, also those that an earlier run has proven.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Prove that no sealed entry was changed, deleted or moved. Exits with 1 if one was.

    Needs ONCEWARD_SECRET_KEY, and includes the anchor at ONCEWARD_AUDIT_ANCHOR_URL. Continues after the last proof.
    Only --full finds a change of an entry that was proven before.
    """

    async def work() -> Any:
        from onceward.trust.anchors import anchor_files, read_anchor
        from onceward.trust.chain import Head, heads_in, prove
        from onceward.trust.secrets import secret_box

        settings = settings_here()
        files = anchor_files(settings)
        try:
            known = [Head.parse(text) for text in head or []]
            known += [each for path in anchors or [] for each in heads_in(path.read_text("utf-8", "replace"))]
            anchor = None if files is None else await read_anchor(files)
        except ValueError as error:
            raise CommandFailed(str(error), Exit.USAGE) from error
        known += [] if anchor is None else [anchor]
        async with opened_database() as db, db.acquire() as conn:
            with progress() as tell:
                return await prove(conn, secret_box(settings), known=known, full=full, tell=tell)

    report = run(work())
    if as_json:
        document({**asdict(report), "head": str(report.head), "ok": report.ok, "full": report.earlier == 0})
    elif report.ok:
        say(f"{report.entries} sealed entries are unchanged, {report.pending} entries are not sealed yet")
        if report.earlier:
            say(f"{report.earlier} entries were proven earlier; --full checks them again")
        say(f"head {report.head}")
    else:
        for problem in report.problems:
            verdict("fail", "audit", problem)
    if not report.ok:
        raise typer.Exit(Exit.FAILED)
