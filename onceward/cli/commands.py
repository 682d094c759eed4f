"""Build the command line from the commands that the features contribute.

A package adds commands with a function `register(cli: typer.Typer) -> None` that its `feature.py` names. Commands that
list rows take `--json` (`JsonOption`) and print through `rendering.listing`. A command that needs the database opens it
with `session.opened(...)`. A command that fails raises an exception, which `exits.py` turns into an exit code. The
modules of commands import only Typer and the frame; import everything else inside the functions, so that `onceward
--help` stays fast. `make docs` rewrites docs/cli.md; a test fails if that file is out of date.
"""

from __future__ import annotations

import os
from importlib import import_module
from typing import Annotated

import typer

from onceward.cli.exits import TRACEBACK_VARIABLE
from onceward.cli.index import CommandIndex, index
from onceward.cli.session import FEATURES_HERE, CommandFeatures
from onceward.extras import find_library
from onceward.feature import Features

OWN = ("new", "settings", "version", "alerts", "types", "apply")
"""The modules of this package that add commands."""
OF_A_CLONE = "onceward.cli.bench"
"""Adds the command that needs the repository. The wheel does not contain the module."""


def build(features: Features) -> typer.Typer:
    """Return the whole command line. Every command can read `features` through `session.features_here()`."""
    cli = _registered(CommandFeatures(features), features)
    for register in features.load("late_commands"):
        register(cli)
    return cli


def command_line(here: CommandFeatures) -> CommandIndex:
    """Return the command line whose commands are prepared when they are called. The commands of the app come last."""
    line = index(_registered(here, here.engine))
    line.declare_later(lambda: _late_commands(here))
    return line


def _registered(here: CommandFeatures, features: Features) -> typer.Typer:
    cli = typer.Typer(
        name="onceward",
        help="Webhooks, jobs, messages, schedules and workflows on PostgreSQL: every effect exactly once.",
        epilog="`onceward settings` lists the environment variables. `onceward doctor` finds problems.",
        no_args_is_help=True,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )

    @cli.callback()
    def root(  # pyright: ignore[reportUnusedFunction]
        version: Annotated[
            bool, typer.Option("--version", help="Print the version and exit.", callback=_print_version, is_eager=True)
        ] = False,
        traceback: Annotated[
            bool,
            typer.Option(
                "--traceback",
                help="Show the whole traceback of an error.",
                callback=_show_tracebacks,
                is_eager=True,
                envvar=TRACEBACK_VARIABLE,
            ),
        ] = False,
    ) -> None:
        FEATURES_HERE.set(here)

    for register in features.load("commands"):
        register(cli)
    for module in OWN:
        import_module(f"onceward.cli.{module}").register(cli)
    if find_library(OF_A_CLONE) is not None:
        import_module(OF_A_CLONE).register(cli)
    return cli


def _show_tracebacks(value: bool) -> None:
    """Remember the option where `entry.py` finds it, also if the command cannot be prepared."""
    if value:
        os.environ[TRACEBACK_VARIABLE] = "1"


def _print_version(value: bool) -> None:
    if value:
        from onceward.cli.version import version

        version()
        raise typer.Exit


def _late_commands(here: CommandFeatures) -> typer.Typer:
    cli = typer.Typer()
    for register in here.engine.load("late_commands"):
        register(cli)
    if here.app_path is not None:
        app = Features(here.of_app())
        for register in (*app.load("commands"), *app.load("late_commands")):
            register(cli)
    return cli
