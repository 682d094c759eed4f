"""The command of rehearsals."""

from __future__ import annotations

import typer

from onceward.rehearsal.commands.rehearse import rehearse


def register(cli: typer.Typer) -> None:
    cli.command("rehearse")(rehearse)
