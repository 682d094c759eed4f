"""Commands about messages and their templates."""

from __future__ import annotations

import typer

from onceward.messages.commands import messages, templates


def register(cli: typer.Typer) -> None:
    messages.register(cli)
    templates.register(cli)
