"""Lists of payments for operators: newest first, by a cursor, searched by what people know."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from onceward.db import Transaction
from onceward.statements import read_statement

from . import reports

LIST = read_statement("payments", "find_payments")
FIND = read_statement("payments", "find_named_payments")
SHOWN = {
    "refunds": "select * from onceward.payment_refunds where payment_id = $1 order by created_at, id",
    "disputes": "select * from onceward.payment_disputes where payment_id = $1 order by created_at, id",
    "plan": "select * from onceward.payment_plans where payment_id = $1",
    "names": "select name from onceward.payment_names where payment_id = $1 order by name",
    "shares": "select code, amount, drawn from onceward.payment_shares where payment_id = $1 order by number",
    "journals": (
        "select journal_id, kind, cash, created_at from onceward.payment_journals where payment_id = $1 order by 1"
    ),
}


async def find(
    tx: Transaction, *, text: str | None = None, status: str | None = None, before: UUID | None = None, limit: int = 50
) -> list[dict[str, Any]]:
    """Return payments of the organization, newest first.

    `text` is an id, a subject, an address, an id at the service, a receipt, or what the apps know their subjects by:
    the name of a buyer, the code of an order.
    """
    if not text:
        return [dict(row) for row in await tx.fetch(LIST, status, before, limit)]
    types, ids = await _subjects(tx, text)
    return [dict(row) for row in await tx.fetch(FIND, text, status, before, limit, types, ids, _uuid(text))]


def _uuid(text: str) -> UUID | None:
    try:
        return UUID(text)
    except ValueError:
        return None


async def _subjects(tx: Transaction, text: str) -> tuple[list[str], list[str]]:
    """Return types and ids of the subjects that the apps find by a text."""
    types: list[str] = []
    ids: list[str] = []
    for subject in reports.registry_of(tx).subjects.values():
        if subject.find is not None:
            found = [str(each) for each in await subject.find(tx, text)]
            types += [subject.type] * len(found)
            ids += found
    return types, ids


async def show(tx: Transaction, payment_id: UUID) -> dict[str, Any] | None:
    """Return everything about one payment."""
    row = await tx.fetchrow("select * from onceward.payments where id = $1", payment_id)
    if row is None:
        return None
    found: dict[str, Any] = dict(row)
    for name, statement in SHOWN.items():
        found[name] = [dict(each) for each in await tx.fetch(statement, payment_id)]
    return found
