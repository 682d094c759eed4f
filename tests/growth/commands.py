"""The commands of a command line that print a list or numbers and need no argument."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import typer.main
from typer.testing import CliRunner

from onceward.cli.commands import build
from onceward.feature import Features

UNSUITABLE = (
    "bench",
    "tail",
    "verify",
    "check",
    "doctor",
    "new",
    "up",
    "serve",
    "worker",
    "scheduler",
    "migrate",
    "simulate",
)
"""Commands that measure, follow, start something, or check everything on purpose."""


def listings(features: Features) -> Iterator[tuple[tuple[str, ...], bool]]:
    """Yield the words of each command, and whether it acts for an organization."""
    yield from _listings(typer.main.get_command(build(features)), ())


def _listings(group: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], bool]]:
    for name, command in sorted(group.commands.items()):
        words = (*path, name)
        if hasattr(command, "commands"):
            yield from _listings(command, words)
        elif not set(words) & set(UNSUITABLE):
            options = {option for each in command.params for option in each.opts}
            required = [each for each in command.params if each.required and "--organization" not in each.opts]
            if "--json" in options and not required:
                yield words, "--organization" in options


def call(features: Features, words: tuple[str, ...], organization: str | None) -> Any:
    """Run a command in this process. Needs a thread of its own, because it starts an event loop."""
    chosen = () if organization is None else ("--organization", organization)
    return CliRunner().invoke(build(features), [*words, *chosen, "--json"])
