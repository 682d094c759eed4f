"""`settings`: list every setting with its current value and its meaning."""

from __future__ import annotations

import typer

from onceward.cli.rendering import JsonOption, listing
from onceward.cli.session import features_here


def register(cli: typer.Typer) -> None:
    cli.command("settings")(settings)


def settings(as_json: JsonOption = False) -> None:
    """List the settings with their values. Values of secrets are hidden."""
    from onceward.settings import all_settings, load_settings

    rows = [
        {"name": row.name, "value": row.value, "default": row.default, "description": row.description}
        for row in all_settings(features_here().settings, current=load_settings())
    ]
    listing(rows, columns=("name", "value", "description"), as_json=as_json)
