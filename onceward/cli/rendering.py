"""How commands print: tables for people, one JSON document for programs. Logs go to stderr, answers to stdout."""

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
    """Print rows: with `--json` every member of every row, otherwise these columns."""
    found = list(rows)
    if as_json:
        document(found)
        return
    # A pipe has no edge to fit into: nothing is cut there.
    console = Console() if sys.stdout.isatty() else Console(width=UNCUT)
    if not found:
        console.print(empty)
        return
    table = Table(*columns, box=None, header_style="bold", pad_edge=False)
    for row in found:
        table.add_row(*(_cell(row.get(column)) for column in columns))
    console.print(table)


def document(value: Any) -> None:
    """Print one JSON document."""
    typer.echo(exact_json.dumps(value, indent=True, default=str))


def say(text: str) -> None:
    """A line for a person, on stdout."""
    Console(highlight=False).print(Text(text), soft_wrap=True)


def verdict(status: str, subject: str, text: str) -> None:
    """A line that begins with how it stands: ok, warn or fail."""
    line = Text(f"{status:<5}", style=STYLES.get(status, ""))
    line.append(f"{subject}: ", style="bold")
    line.append(text, style="default not bold")
    Console(highlight=False).print(line, soft_wrap=True)


def complain(text: str) -> None:
    """A line about what went wrong, on stderr."""
    line = Text("error: ", style="bold red")
    line.append(text, style="default not bold")
    Console(stderr=True, highlight=False).print(line, soft_wrap=True)


def _cell(value: Any) -> Text:
    return Text("" if value is None else str(value))
