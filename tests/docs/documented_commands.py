"""Find the `onceward ...` command lines in the documentation and in the messages of the code, and parse them.

A line of a code block must be complete. A code span in a sentence, or in a message, may name a command without its
arguments (`onceward users disable`), and may use the notation `ls|show`, `ls | show NAME` and `[--strict]`.
"""

from __future__ import annotations

import ast
import contextlib
import io
import itertools
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer.main

from onceward.cli.commands import build
from onceward.runtime import FEATURES
from onceward_apps.all import app

ROOT = Path(__file__).parents[2]
GENERATED = {ROOT / "docs" / "cli.md", ROOT / "CHANGELOG.md"}
"""The first comes from the command tree itself; the second also tells of commands that were renamed later."""
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
SPAN = re.compile(r"`(onceward\s[^`]+)`")
ASSIGNMENT = re.compile(r"[A-Z_]+=")
PLACEHOLDER = re.compile(r"\{\w*\}|[A-Z][A-Z_]*")
PLACEHOLDER_VALUES = ("1", "00000000-0000-0000-0000-000000000001", "2031-06-21T18:00:00Z", "2031-06-21", __file__)
SHELL_OPERATORS = {"&&", ";", "|", ">", "<"}


@dataclass(frozen=True)
class DocumentedCommand:
    """One command line, without the word `onceward`."""

    where: str
    words: tuple[str, ...]
    complete: bool
    """Whether arguments and required options must be there."""

    def __str__(self) -> str:
        return f"{self.where}: onceward {shlex.join(self.words)}"


def documented_commands() -> list[DocumentedCommand]:
    """Return every command line in the documentation and in the messages of the code."""
    pages = {*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "apps").rglob("*.md")} - GENERATED
    modules = [*(ROOT / "onceward").rglob("*.py"), *(ROOT / "apps").rglob("*.py")]
    found = [command for page in sorted(pages) for command in in_page(page.read_text("utf-8"), _name(page))]
    return found + [command for path in sorted(modules) for command in in_module(path.read_text("utf-8"), _name(path))]


def in_page(text: str, where: str) -> Iterator[DocumentedCommand]:
    """Yield the commands of a Markdown page."""
    for language, block in BLOCK.findall(text):
        if language in ("", "sh", "bash", "console"):
            for line in block.replace("\\\n", " ").splitlines():
                yield from _in_shell_line(line, where)
    yield from _in_prose(BLOCK.sub("", text), where)


def in_module(source: str, where: str) -> Iterator[DocumentedCommand]:
    """Yield the commands that the strings of a Python module quote: docstrings, help texts, errors."""
    if "`onceward " not in source:
        return
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.JoinedStr):
            parts = [part.value if isinstance(part, ast.Constant) else "VALUE" for part in node.values]
            yield from _in_prose("".join(str(part) for part in parts), where)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and "`onceward " in node.value:
            yield from _in_prose(node.value, where)


def _in_shell_line(line: str, where: str) -> Iterator[DocumentedCommand]:
    if "onceward" not in line:
        return
    lexer = shlex.shlex(line, posix=True, punctuation_chars="&;|<>")
    lexer.whitespace_split = True
    for is_operator, words in itertools.groupby(lexer, key=SHELL_OPERATORS.__contains__):
        rest = list(itertools.dropwhile(ASSIGNMENT.match, words))
        if not is_operator and rest and rest[0] == "onceward":
            yield DocumentedCommand(where, tuple(rest[1:]), complete=True)


def _in_prose(text: str, where: str) -> Iterator[DocumentedCommand]:
    for span in SPAN.findall(text):
        words = shlex.split(re.sub(r"[\[\]]", " ", span))[1:]
        for alternative in _spelled_out(words):
            yield DocumentedCommand(where, tuple(alternative), complete=False)


def _spelled_out(words: list[str]) -> Iterator[list[str]]:
    """Yield one command for each alternative of `ls|show` and of `ls | show NAME`; those share the words before `ls`."""
    pieces = [list(group) for bar, group in itertools.groupby(words, "|".__eq__) if not bar]
    shared = pieces[0][:1] if len(pieces) > 1 else []
    for number, piece in enumerate(pieces):
        for spelled in itertools.product(*(word.split("|") for word in piece)):
            yield (shared if number else []) + list(spelled)


class CommandTree:
    """The real command line of the engine with the bundled apps. Without callbacks a command parses and does nothing."""

    def __init__(self, *, with_callbacks: bool = False) -> None:
        self._root: Any = typer.main.get_command(build(FEATURES.plus(app.features())))
        if not with_callbacks:
            self._remove_callbacks(self._root)

    def run(self, command: DocumentedCommand) -> object:
        """Run the command in this process and return its exit code."""
        try:
            return self._root.main(list(command.words), prog_name="onceward", standalone_mode=False) or 0
        except Exception as error:
            return getattr(error, "exit_code", None) or repr(error)

    def problem_of(self, command: DocumentedCommand) -> str | None:
        """Return what the parser says against this command, or None."""
        if PLACEHOLDER.fullmatch(command.words[0]):  # `onceward COMMAND ...` is about every command
            return None
        problems = {value: self._parse(command, value) for value in PLACEHOLDER_VALUES}
        return None if None in problems.values() else problems[PLACEHOLDER_VALUES[0]]

    def _parse(self, command: DocumentedCommand, placeholder: str) -> str | None:
        words = [placeholder if PLACEHOLDER.fullmatch(word) else word for word in command.words]
        try:
            with contextlib.redirect_stdout(io.StringIO()):  # a group without a command prints its help
                self._root.main(words, prog_name="onceward", standalone_mode=False)
        except Exception as error:
            if getattr(error, "exit_code", None) != 2:
                raise
            kind = type(error).__name__
            names_only = not command.complete and kind in ("MissingParameter", "NoArgsIsHelpError")
            return None if names_only else f"{kind}: {getattr(error, 'message', error)}"
        return None

    def _remove_callbacks(self, command: Any) -> None:
        command.callback = None
        for child in getattr(command, "commands", {}).values():
            self._remove_callbacks(child)


def _name(path: Path) -> str:
    return str(path.relative_to(ROOT))
