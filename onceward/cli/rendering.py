"""How commands print: tables for people, one JSON document for programs. Output goes to stdout, logs go to stderr."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any

import typer

JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of a table.")]
"""The option `--json` of a command that lists things."""

UNCUT = 500
COLOURS = {"ok": "green", "warn": "yellow", "fail": "red"}


def listing(
    rows: Iterable[Mapping[str, Any]], *, columns: Sequence[str], as_json: bool, empty: str = "nothing"
) -> None:
    """Print rows as JSON with all their fields, or as a table with these columns."""
    listed = list(rows)
    if as_json:
        document(listed)
        return
    if not listed:
        say(empty)
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    # A pipe has no width: the table must not cut any text there.
    console = Console() if sys.stdout.isatty() else Console(width=UNCUT)
    table = Table(*columns, box=None, header_style="bold", pad_edge=False)
    for row in listed:
        cells = (row.get(column) for column in columns)
        table.add_row(*(Text(_cell(cell)) for cell in cells))
    console.print(table)


class StreamedListing:
    """Prints many rows as they arrive, as `listing` prints few. Only the first rows are kept, to find the widths."""

    def __init__(self, *, columns: Sequence[str], as_json: bool, empty: str = "nothing") -> None:
        self._columns = columns
        self._as_json = as_json
        self._empty = empty
        self._first: list[Mapping[str, Any]] = []
        self._widths: list[int] | None = None

    def add(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Print the rows, or keep them if they are the first."""
        if self._widths is None and not self._first:
            self._first = list(rows)
            return
        if self._widths is None:
            cells = [self._columns, *(self._cells(row) for row in self._first)]
            self._widths = [max(len(row[n]) for row in cells) for n in range(len(self._columns))]
            typer.echo("[" if self._as_json else self._line(self._columns))
            self._print(self._first, first=True)
        self._print(rows, first=False)

    def end(self) -> None:
        """Print what is left. Call it after the last rows."""
        if self._widths is None:
            listing(self._first, columns=self._columns, as_json=self._as_json, empty=self._empty)
        elif self._as_json:
            typer.echo("\n]")

    def _print(self, rows: Sequence[Mapping[str, Any]], *, first: bool) -> None:
        if self._as_json:
            from onceward import exact_json

            texts = (exact_json.dumps(row, default=str) for row in rows)
            typer.echo(("" if first else ",\n") + ",\n".join(texts), nl=False)
        else:
            typer.echo("\n".join(self._line(self._cells(row)) for row in rows))

    def _cells(self, row: Mapping[str, Any]) -> list[str]:
        return [_cell(row.get(column)) for column in self._columns]

    def _line(self, cells: Sequence[str]) -> str:
        widths = self._widths or ()
        return " ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)).rstrip()


def document(value: Any) -> None:
    """Print one JSON document."""
    from onceward import exact_json

    typer.echo(exact_json.dumps(value, indent=True, default=str))


def say(text: str) -> None:
    """Print a line for a person, on stdout."""
    typer.echo(text)


def boxed(*lines: str) -> None:
    """Print lines between two rules, on stdout. No line is cut or wrapped, so a link can be clicked and copied."""
    rule = "-" * min(max(len(line) for line in lines), 100)
    for line in (rule, *lines, rule):
        say(line)


def verdict(status: str, subject: str, text: str) -> None:
    """Print a line that begins with its status: ok, warn or fail."""
    colour = COLOURS.get(status)
    label = typer.style(f"{status:<5}", fg=colour, bold=status == "fail")
    _print(f"{label}{typer.style(f'{subject}: ', bold=True)}{text}")


def complain(text: str) -> None:
    """Print an error line, on stderr."""
    _print(f"{typer.style('error: ', fg='red', bold=True)}{text}", err=True)


def warn(text: str) -> None:
    """Print a line about something that is probably a mistake, on stderr."""
    _print(f"{typer.style('warning: ', fg='yellow', bold=True)}{text}", err=True)


def _print(text: str, *, err: bool = False) -> None:
    """Print a line. A terminal gets it with its colours unless NO_COLOR is set; a pipe gets it without."""
    typer.echo(text, err=err, color=False if os.environ.get("NO_COLOR") else None)


def _cell(value: Any) -> str:
    return "" if value is None else str(value)
