"""Commands that are prepared when they are called.

Typer reads the signature of every function to build the whole command line, which takes longer than most commands run.
`index` builds only the groups. A command or a group below one is built when it is called, and help needs only the
docstring. The commands of the app and of integrations are loaded when help is printed, or when a name is not known yet.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable
from typing import Any

import typer
from typer.core import TyperGroup
from typer.main import (
    get_command,
    get_command_from_info,
    get_command_name,
    get_group_from_info,
    solve_typer_info_defaults,
)
from typer.models import CommandInfo, TyperInfo

from onceward.cli.app_loader import APP_VARIABLE, app_paths

Entry = CommandInfo | TyperInfo


class CommandIndex(TyperGroup):
    """A group whose commands are prepared when they are called."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self._entries: dict[str, Entry] = {}
        self._more: Callable[[], typer.Typer] | None = None

    def declare(self, cli: typer.Typer) -> None:
        """Add the commands and groups of a Typer application."""
        for command in cli.registered_commands:
            if command.callback is not None:
                self._entries[command.name or get_command_name(command.callback.__name__)] = command
        for group in cli.registered_groups:
            if isinstance(group.name, str):
                self._entries[group.name] = group

    def declare_later(self, more: Callable[[], typer.Typer]) -> None:
        """Add more commands when help is printed, or when a name is not a command yet."""
        self._more = more

    def _declare_rest(self) -> None:
        if self._more is not None:
            more, self._more = self._more, None
            self.declare(more())

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in self._entries:
            self._declare_rest()
        if cmd_name in self._entries and cmd_name not in self.commands:
            self.commands[cmd_name] = _prepared(self._entries[cmd_name])
        return super().get_command(ctx, cmd_name)

    def list_commands(self, ctx: Any) -> list[str]:
        self._declare_rest()
        return list(self._entries)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if self.get_command(ctx, args[0]) is None:  # the message suggests names from `commands`
            for name in self.list_commands(ctx):
                self.get_command(ctx, name)
            if ctx.parent is None and (path := app_paths().get(args[0])) is not None:
                ctx.fail(
                    f"{args[0]!r} is an app, whose commands exist while {APP_VARIABLE} names it: {APP_VARIABLE}={path}"
                )
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        self._declare_rest()
        shown = [(name, _summary(entry)) for name, entry in self._entries.items() if entry.hidden is not True]
        if shown:
            with formatter.section("Commands"):
                formatter.write_dl(shown)


def index(cli: typer.Typer) -> CommandIndex:
    """Return the command line of a Typer application that has a callback."""
    empty = _empty(cli)
    empty.info = copy.copy(cli.info)
    empty.info.cls = CommandIndex
    root = get_command(empty)
    assert isinstance(root, CommandIndex)
    root.declare(cli)
    return root


def _empty(cli: typer.Typer) -> typer.Typer:
    """Return a copy without commands."""
    empty = copy.copy(cli)
    empty.registered_commands, empty.registered_groups = [], []
    return empty


def _prepared(entry: Entry) -> Any:
    if isinstance(entry, CommandInfo):
        return get_command_from_info(entry, pretty_exceptions_short=True, rich_markup_mode=None)
    assert entry.typer_instance is not None
    empty = copy.copy(entry)
    empty.typer_instance, empty.cls = _empty(entry.typer_instance), CommandIndex
    group = get_group_from_info(empty, pretty_exceptions_short=True, suggest_commands=True, rich_markup_mode=None)
    assert isinstance(group, CommandIndex)
    group.declare(entry.typer_instance)
    return group


def _summary(entry: Entry) -> str:
    """Return the first paragraph of the help of a command or a group, in one line."""
    if isinstance(entry, CommandInfo):
        text = entry.short_help or entry.help or inspect.getdoc(entry.callback) or ""
    else:
        text = solve_typer_info_defaults(entry).help or ""
    return " ".join(inspect.cleandoc(text).partition("\n\n")[0].split())
