"""How commands print: tables for people, one JSON document for programs. Output goes to stdout, logs go to stderr."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from onceward.providers import exact_json

JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of a table.")]

UNCUT = 500
STYLES = {"ok": "green", "warn": "yellow", "fail": "bold red"}


def listing(
    rows: Iterable[Mapping[str, Any]], *, columns: Sequence[str], as_json: bool, empty: str = "nothing"
) -> None:
    """Print rows as JSON with all their fields, or as a table with these columns."""
    listed = list(rows)
    if as_json:
        document(listed)
        return
    # A pipe has no width: the table must not cut any text there.
    console = Console() if sys.stdout.isatty() else Console(width=UNCUT)
    if not listed:
        console.print(empty)
        return
    table = Table(*columns, box=None, header_style="bold", pad_edge=False)
    for row in listed:
        table.add_row(*(_cell(row.get(column)) for column in columns))
    console.print(table)


def document(value: Any) -> None:
    """Print one JSON document."""
    typer.echo(exact_json.dumps(value, indent=True, default=str))


def say(text: str) -> None:
    """Print a line for a person, on stdout."""
    Console(highlight=False).print(Text(text), soft_wrap=True)


def boxed(*lines: str) -> None:
    """Print lines between two rules, on stdout. No line is cut or wrapped, so a link can be clicked and copied."""
    rule = "-" * min(max(len(line) for line in lines), 100)
    for line in (rule, *lines, rule):
        say(line)


def verdict(status: str, subject: str, text: str) -> None:
    """Print a line that begins with its status: ok, warn or fail."""
    line = Text(f"{status:<5}", style=STYLES.get(status, ""))
    line.append(f"{subject}: ", style="bold")
    line.append(text, style="default not bold")
    Console(highlight=False).print(line, soft_wrap=True)


def complain(text: str) -> None:
    """Print an error line, on stderr."""
    line = Text("error: ", style="bold red")
    line.append(text, style="default not bold")
    Console(stderr=True, highlight=False).print(line, soft_wrap=True)


def _cell(value: Any) -> Text:
    return Text("" if value is None else str(value))
