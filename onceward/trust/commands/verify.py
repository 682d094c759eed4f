"""`verify`: check every invariant on a live database."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from onceward.cli.exits import CommandFailed, Exit
from onceward.cli.progress import progress
from onceward.cli.rendering import JsonOption, document, verdict
from onceward.cli.session import features_here, opened_database, run, settings_here

if TYPE_CHECKING:
    from onceward.trust import Check, Result


def register(cli: typer.Typer) -> None:
    cli.command("verify")(verify)


def verify(
    only: Annotated[
        list[str] | None,
        typer.Option("--only", help="Run only checks whose name begins with this text; can be repeated."),
    ] = None,
    full: Annotated[
        bool,
        typer.Option(
            "--full",
            help="Check everything again, also what an earlier run has proven and somebody may have changed since.",
        ),
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Check every invariant of the stored data. Changes no data. Exits with 1 if a check finds a problem.

    Checks of tables that only grow continue where the last run without problems ended.
    """

    async def work() -> list[Result]:
        from onceward.trust import verify

        async with opened_database() as db:
            with progress() as tell:
                return await verify(db, _chosen(only), full=full, tell=tell)

    results = run(work())
    if as_json:
        document(
            [
                {
                    "check": one.name,
                    "ok": one.ok,
                    "problems": one.problems,
                    "seconds": one.seconds,
                    "full": not one.since,
                }
                for one in results
            ]
        )
    else:
        for one in results:
            verdict("ok" if one.ok else "fail", one.name, "; ".join(one.problems) or _holds(one))
    if not all(one.ok for one in results):
        raise typer.Exit(Exit.FAILED)


def _holds(one: Result) -> str:
    return f"holds ({one.seconds:.2f} s{', since the last run' if one.since else ''})"


def _chosen(only: list[str] | None) -> list[Check]:
    from onceward.trust.checks import check_audit_chain, check_secrets_can_be_opened
    from onceward.trust.secrets import secret_box

    features = features_here()
    checks: list[Check] = [check for checks in features.load("checks") for check in checks]
    box = secret_box(settings_here())
    checks += [check_audit_chain(box), check_secrets_can_be_opened(box, features.sealed)]
    chosen = [check for check in checks if not only or check.name.startswith(tuple(only))]
    if not chosen:
        raise CommandFailed(
            f"--only {', '.join(only or [])}: no check has a name that begins with this text", Exit.USAGE
        )
    return chosen
