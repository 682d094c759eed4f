"""The commands `integrations` and `services`, and those that the integrations themselves contribute."""

from __future__ import annotations

import typer

from onceward.services.commands import integrations, services


def register(cli: typer.Typer) -> None:
    from onceward.feature import resolve
    from onceward.integration import integrations as installed

    integrations.register(cli)
    services.register(cli)
    for each in installed().having("commands"):
        assert each.commands is not None
        resolve(each.commands)(cli)
