"""`doctor`: find what is wrong with this installation and say what to do."""

from __future__ import annotations

import typer

from onceward.cli.app_loader import AppArgument, load_app
from onceward.cli.exits import Exit
from onceward.cli.rendering import JsonOption, listing, verdict
from onceward.cli.session import features_here, features_with, run


def register(cli: typer.Typer) -> None:
    cli.command("doctor")(doctor)


def doctor(app: AppArgument = None, as_json: JsonOption = False) -> None:
    """Check everything that an installation needs. Exits with 1 if a check fails, with 0 if there are only warnings."""
    from onceward.doctor.examination import examine

    findings = run(examine(features_here() if app is None else features_with(load_app(app))))
    if as_json:
        rows = [
            {"check": item.check, "status": item.status, "finding": item.finding, "remedy": item.remedy}
            for item in findings
        ]
        listing(rows, columns=("check", "status", "finding", "remedy"), as_json=True)
    else:
        for item in findings:
            verdict(item.status, item.check, item.finding + (f"; {item.remedy}" if item.remedy else ""))
    if any(item.status == "fail" for item in findings):
        raise typer.Exit(Exit.FAILED)
