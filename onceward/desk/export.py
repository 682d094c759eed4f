"""A list as a file: CSV as a stream, XLSX by way of a temporary file. Neither holds more than one page in memory."""

from __future__ import annotations

import asyncio
import csv
import io
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from asyncpg import Record

from onceward.desk.cells import headings, line
from onceward.desk.columns import Column
from onceward.desk.list_request import Asked
from onceward.desk.list_rows import Rows
from onceward.extras import extra

CHUNK = 1_000
FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""A text that begins with one of these is a formula to a spreadsheet."""
MOST_XLSX = 1_048_000
"""A sheet has room for this many rows."""


ReadChunk = Callable[[Asked], Awaitable[Rows]]
"""Reads the next rows, each time in a transaction of its own: a slow download holds no connection."""
Chunks = AsyncIterator[Sequence[Record]]


@dataclass(frozen=True, slots=True)
class Sheet:
    """What a file contains: its name without the ending, its title and its columns."""

    name: str
    title: str
    columns: tuple[Column, ...]


async def chunks(read_chunk: ReadChunk, asked: Asked) -> AsyncGenerator[Sequence[Record]]:
    """Return all rows of a listing, one chunk at a time."""
    while True:
        chunk = await read_chunk(asked)
        yield chunk.rows
        if chunk.next is None:
            return
        last = chunk.rows[-1]
        asked = replace(asked, after=(last["_sort"], last["_id"]))


def neutral(value: Any) -> Any:
    """Return a text that no spreadsheet takes for a formula."""
    return "'" + value if isinstance(value, str) and value.startswith(FORMULA) else value


async def csv_lines(sheet: Sheet, rows: Chunks) -> AsyncGenerator[str]:
    """Return the list as CSV. Without the byte order mark at its beginning, Excel takes it for Latin-1."""
    yield "\ufeff" + _csv([headings(sheet.columns)])
    async for chunk in rows:
        yield _csv([[neutral(value) for value in line(sheet.columns, row)] for row in chunk])


def _csv(lines: list[list[Any]]) -> str:
    buffer = io.StringIO()
    csv.writer(buffer).writerows(lines)
    return buffer.getvalue()


async def xlsx(contents: Sheet, rows: Chunks) -> tuple[TemporaryDirectory[str], Path]:
    """Write the list as a workbook. The caller removes the directory when it has sent the file."""
    with extra("desk", "the export of lists as XLSX"):
        from importlib import import_module

        xlsxwriter: Any = import_module("xlsxwriter")
    directory = TemporaryDirectory(prefix="onceward-desk-")
    path = Path(directory.name) / f"{contents.name}.xlsx"
    book = xlsxwriter.Workbook(
        str(path), {"constant_memory": True, "strings_to_formulas": False, "strings_to_urls": False}
    )
    try:
        sheet = book.add_worksheet(contents.title[:31])
        bold = book.add_format({"bold": True})
        formats = {
            datetime: book.add_format({"num_format": "yyyy-mm-dd hh:mm"}),
            date: book.add_format({"num_format": "yyyy-mm-dd"}),
        }
        for at, title in enumerate(headings(contents.columns)):
            sheet.write_string(0, at, title, bold)
        number = 1
        async for chunk in rows:
            for row in chunk[: MOST_XLSX - number]:
                for at, value in enumerate(line(contents.columns, row)):
                    _write(sheet, number, at, value, formats)
                number += 1
        # It compresses the whole file, which takes seconds for a long list.
        await asyncio.to_thread(book.close)
    except BaseException:
        directory.cleanup()
        raise
    return directory, path


def _write(sheet: Any, row: int, at: int, value: Any, formats: dict[type, Any]) -> None:
    if value is None:
        return
    if isinstance(value, datetime | date):
        sheet.write_datetime(row, at, value, formats[type(value)])
    elif isinstance(value, str):
        sheet.write_string(row, at, value)
    else:
        sheet.write_number(row, at, value)
