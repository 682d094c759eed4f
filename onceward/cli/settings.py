"""`settings`: list every setting with its current value and its meaning."""

from __future__ import annotations

import typer

from onceward.cli.rendering import JsonOption, listing
from onceward.cli.session import features_here


def register(cli: typer.Typer) -> None:
    cli.command("settings")(settings)


def settings(as_json: JsonOption = False) -> None:
    """List the settings with their values, by the feature or app that they belong to. Values of secrets are hidden."""
    from onceward.settings import all_settings, load_settings

    declared = features_here().settings
    rows = [
        {
            "owner": row.owner,
            "name": row.name,
            "value": row.value,
            "default": row.default,
            "description": row.description,
        }
        for row in all_settings(declared, current=load_settings(declared))
    ]
    listing(rows, columns=("owner", "name", "value", "description"), as_json=as_json)
