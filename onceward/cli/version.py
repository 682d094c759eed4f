"""`version`: print the installed versions."""

from __future__ import annotations

import platform

import typer

from onceward.cli.rendering import JsonOption, document, say


def register(cli: typer.Typer) -> None:
    cli.command("version")(version)


def version(as_json: JsonOption = False) -> None:
    """Print the version of Onceward and of Python."""
    from onceward import __version__

    if as_json:
        document({"onceward": __version__, "python": platform.python_version()})
    else:
        say(f"onceward {__version__} on Python {platform.python_version()}")
