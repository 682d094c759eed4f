"""`alerts`: print the Prometheus alert rules of all packages as one file."""

from __future__ import annotations

import typer

from onceward.cli.app_loader import AppArgument, load_app
from onceward.cli.session import features_here, features_with
from onceward.feature import Features

HEADING = "groups:\n"


def register(cli: typer.Typer) -> None:
    cli.command("alerts")(alerts)


def alerts(app: AppArgument = None) -> None:
    """Print the Prometheus alert rules of the engine and of the app, as one file for `rule_files`."""
    typer.echo(alert_rules(features_here() if app is None else features_with(load_app(app))), nl=False)


def alert_rules(features: Features) -> str:
    """Return the alert rules of all features as one YAML document."""
    lines = ["# Prometheus alert rules. Load with `rule_files`; the numbers are starting points.\n", HEADING]
    for path in features.alerts:
        _, heading, groups = path.read_text(encoding="utf-8").partition(HEADING)
        if not heading:
            raise ValueError(f"{path}: a file with alert rules needs a line `groups:`")
        lines.append(groups)
    return "".join(lines)
