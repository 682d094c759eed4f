"""Commands about messages, their templates, and mail."""

from __future__ import annotations

import typer

from onceward.messages.commands import mail, messages, templates


def register(cli: typer.Typer) -> None:
    mail.register(cli)
    messages.register(cli)
    templates.register(cli)
