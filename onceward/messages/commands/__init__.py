"""Commands about messages, their templates, mail, and who wants messages."""

from __future__ import annotations

import typer

from onceward.messages.commands import consents, mail, messages, templates


def register(cli: typer.Typer) -> None:
    consents.register(cli)
    mail.register(cli)
    messages.register(cli)
    templates.register(cli)
