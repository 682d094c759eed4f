"""The commands `integrations` and `services`."""

from __future__ import annotations

import typer

from onceward.services.commands import integrations, services


def register(cli: typer.Typer) -> None:
    integrations.register(cli)
    services.register(cli)
