"""Posted entries as a file for accountants: CSV, or the plain-text format that Ledger, hledger and their tools read."""

from __future__ import annotations

import csv
import io
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Literal

from onceward.db import Transaction
from onceward.ledger.errors import InvalidEntry
from onceward.money import exponent
from onceward.statements import read_statement

ENTRIES = read_statement("ledger", "export_entries")
PAGE = 500
"""Journals that are read at once."""
COLUMNS = ("journal", "at", "key", "kind", "memo", "debit", "credit", "amount", "currency")
KINDS = {"asset": "Assets", "liability": "Liabilities", "equity": "Equity", "revenue": "Revenue", "expense": "Expenses"}
Format = Literal["csv", "journal"]
FORMULA = ("=", "+", "-", "@", "\t", "\r")


async def export(tx: Transaction, since: datetime, until: datetime, *, format: Format) -> AsyncGenerator[str]:
    """Yield the entries that were posted from `since` to before `until`, in pages of lines."""

    async def read(after: int) -> Sequence[Any]:
        return await tx.fetch(ENTRIES, tx.organization, since, until, after, PAGE)

    async for text in _texts(read, since, until, format):
        yield text


async def export_apart(
    begin: Callable[[], AbstractAsyncContextManager[Transaction]], since: datetime, until: datetime, *, format: Format
) -> AsyncGenerator[str]:
    """Yield what `export` yields. Each page is read in a transaction of its own: a slow reader holds no connection."""

    async def read(after: int) -> Sequence[Any]:
        async with begin() as tx:
            return await tx.fetch(ENTRIES, tx.organization, since, until, after, PAGE)

    async for text in _texts(read, since, until, format):
        yield text


async def _texts(
    read: Callable[[int], Awaitable[Sequence[Any]]], since: datetime, until: datetime, format: Format
) -> AsyncGenerator[str]:
    for name, at in (("since", since), ("until", until)):
        if at.utcoffset() is None:
            raise InvalidEntry(f"{name} {at.isoformat()} has no offset from UTC: write {at.isoformat()}Z for UTC")
    if format == "csv":
        yield _csv([COLUMNS])
    after = 0
    while True:
        journals = await read(after)
        rows = [row for row in journals if row["amount"] is not None]
        if format == "csv":
            yield _csv([_cells(row) for row in rows])
        else:
            yield "".join(_posting(row, is_new=row["journal_id"] != before) for before, row in _paired(rows))
        if len({row["journal_id"] for row in journals}) < PAGE:
            return
        after = journals[-1]["journal_id"]


def _paired(rows: Sequence[Any]) -> list[tuple[int | None, Any]]:
    """Return each row with the journal of the row before."""
    before = [None, *(row["journal_id"] for row in rows)]
    return list(zip(before, rows, strict=False))


def _cells(row: Any) -> list[Any]:
    memo = row["memo"] or ""
    safe = "'" + memo if memo.startswith(FORMULA) else memo  # a spreadsheet would take it for a formula
    at = row["at"].astimezone(UTC).isoformat()
    amount = _amount(row["amount"], row["currency"])
    return [row["journal_id"], at, row["key"], row["kind"], safe, row["debit"], row["credit"], amount, row["currency"]]


def _posting(row: Any, *, is_new: bool) -> str:
    """Return an entry as two lines, after the head of its journal if it is the first one of it."""
    head = ""
    if is_new:
        words = " ".join(f"{row['memo'] or row['kind']} [{row['key']}]".replace(";", ",").split())
        head = f"\n{row['at'].astimezone(UTC):%Y-%m-%d} * ({row['journal_id']}) {words}\n"
    amount, currency = _amount(row["amount"], row["currency"]), row["currency"]
    debit, credit = f"{KINDS[row['debit_kind']]}:{row['debit']}", f"{KINDS[row['credit_kind']]}:{row['credit']}"
    return f"{head}    {debit}  {amount} {currency}\n    {credit}  -{amount} {currency}\n"


def _amount(amount: int, currency: str) -> str:
    digits = exponent(currency)
    return f"{Decimal(amount).scaleb(-digits):.{digits}f}"


def _csv(lines: Sequence[Sequence[Any]]) -> str:
    buffer = io.StringIO()
    csv.writer(buffer).writerows(lines)
    return buffer.getvalue()
