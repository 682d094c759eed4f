"""The commands `integrations` and `services`, and those that the integrations themselves contribute."""

from __future__ import annotations

import typer

from onceward.services.commands import integrations, services


def register(cli: typer.Typer) -> None:
    integrations.register(cli)
    services.register(cli)


def register_integrations(cli: typer.Typer) -> None:
    """Add the commands of the installed integrations. This reads the entry points of every distribution."""
    from onceward.feature import resolve
    from onceward.integration import integrations as installed

    for each in installed().having("commands"):
        assert each.commands is not None
        resolve(each.commands)(cli)
