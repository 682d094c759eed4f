"""Build the command line from the commands that the features contribute.

A package adds commands with a function `register(cli: typer.Typer) -> None` that its `feature.py` names. Commands that list
rows take `--json` (`JsonOption`) and print through `rendering.listing`. A command that needs the database opens it with
`session.opened(...)`. A command that fails raises an exception, which `exits.py` turns into an exit code. Import heavy
modules inside the functions, so that `onceward --help` stays fast. `make docs` rewrites docs/cli.md; a test fails if that
file is out of date.
"""

from __future__ import annotations

import typer

from onceward.cli import alerts, bench, new, settings, types, version
from onceward.cli.session import FEATURES_HERE
from onceward.feature import Features

OWN = (new, settings, version, alerts, types, bench)


def build(features: Features) -> typer.Typer:
    """Return the whole command line. Every command can read `features` through `session.features_here()`."""
    cli = typer.Typer(
        name="onceward",
        help="Webhooks, jobs, messages, schedules and workflows on PostgreSQL: every effect exactly once.",
        epilog="`onceward settings` lists the environment variables. `onceward doctor` finds problems.",
        no_args_is_help=True,
        rich_markup_mode="markdown",
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )

    @cli.callback()
    def root() -> None:  # pyright: ignore[reportUnusedFunction]
        FEATURES_HERE.set(features)

    for register in features.load("commands"):
        register(cli)
    for module in OWN:
        module.register(cli)
    return cli
