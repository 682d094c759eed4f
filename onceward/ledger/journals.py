"""Write to the ledger: post, settle, void and reverse journals. Each call is one round trip and writes one journal.

    pending ──settle──▶ settlement ──reverse──▶ reversal
       └─────void────▶ void
    posted ──reverse──▶ reversal

Journals never change: a settlement or reversal is a new journal, limited to the amounts of the original entries.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal
from uuid import UUID

from onceward.db import Database, Transaction
from onceward.ledger.errors import InvalidEntry, NotPossible, UnknownJournal, named_errors
from onceward.ledger.model import Entry, Journal, Part, checked_amount, checked_key

POST = "select journal_id, fresh from onceward.ledger_post($1, $2, $3, $4, $5, $6, $7)"
POST_ALONE = "select journal_id, fresh from onceward.ledger_post_alone($1, $2, $3, $4, $5, $6, $7, $8)"
DRAW = "select journal_id, fresh from onceward.ledger_draw($1, $2, $3, $4, $5, $6)"
PARTS = "select id from onceward.ledger_entries where journal_id = $1 order by id limit 2"


async def post(
    tx: Transaction, entries: Sequence[Entry], *, key: str, memo: str | None = None, pending: bool = False
) -> Journal:
    """Post these entries as one journal. A repeated call with the same key and content returns the first journal."""
    with named_errors():
        row = await tx.fetchrow(POST, *_values(entries, key, memo, pending))
    assert row is not None
    return Journal(row["journal_id"], key, row["fresh"])


async def post_alone(
    db: Database,
    organization: UUID,
    entries: Sequence[Entry],
    *,
    key: str,
    memo: str | None = None,
    pending: bool = False,
) -> Journal:
    """Post a journal that is a transaction of its own, in one round trip: for a service that does nothing else.

    If the connection is lost, call it again: the key makes sure that the journal is posted once.
    """
    with named_errors():
        row = await db.fetchrow(POST_ALONE, organization, *_values(entries, key, memo, pending))
    assert row is not None
    return Journal(row["journal_id"], key, row["fresh"])


def _values(entries: Sequence[Entry], key: str, memo: str | None, pending: bool) -> tuple[Any, ...]:
    if not entries:
        raise InvalidEntry(f"journal {key!r} has no entries: give at least one Entry, or do not call post")
    return (
        checked_key(key),
        [entry.debit for entry in entries],
        [entry.credit for entry in entries],
        [entry.amount for entry in entries],
        [entry.currency for entry in entries],
        memo,
        pending,
    )


async def reverse(
    tx: Transaction,
    journal_id: int,
    *,
    key: str,
    amount: int | None = None,
    entries: Sequence[Part] | None = None,
    memo: str | None = None,
) -> Journal:
    """Reverse the rest of a posted journal, `amount` of its only entry, or the given parts of its entries."""
    return await _draw(tx, "reversal", journal_id, key=key, amount=amount, entries=entries, memo=memo)


async def settle(
    tx: Transaction,
    journal_id: int,
    *,
    key: str,
    amount: int | None = None,
    entries: Sequence[Part] | None = None,
    memo: str | None = None,
) -> Journal:
    """Post a pending journal, in full or in part. A journal settles once: the rest of its reservation is released."""
    return await _draw(tx, "settlement", journal_id, key=key, amount=amount, entries=entries, memo=memo)


async def void(tx: Transaction, journal_id: int, *, key: str, memo: str | None = None) -> Journal:
    """End a pending journal without posting it, and release its reservation."""
    return await _draw(tx, "void", journal_id, key=key, amount=None, entries=None, memo=memo)


async def _draw(
    tx: Transaction,
    kind: Literal["reversal", "settlement", "void"],
    journal_id: int,
    *,
    key: str,
    amount: int | None,
    entries: Sequence[Part] | None,
    memo: str | None,
) -> Journal:
    parts = entries
    if amount is not None:
        if entries is not None:
            raise InvalidEntry(f"journal {journal_id}: give amount or entries, not both")
        parts = [await _only_entry(tx, journal_id, amount)]
    if parts is not None and not parts:
        raise InvalidEntry(f"entries of journal {journal_id} is empty: omit entries to use all that is left")
    ids = None if parts is None else [part.entry_id for part in parts]
    if ids is not None and len(set(ids)) != len(ids):
        raise InvalidEntry(f"entries of journal {journal_id} contains an entry twice: {ids}")
    amounts = None if parts is None else [part.amount for part in parts]
    with named_errors():
        row = await tx.fetchrow(DRAW, kind, checked_key(key), journal_id, ids, amounts, memo)
    assert row is not None
    return Journal(row["journal_id"], key, row["fresh"])


async def _only_entry(tx: Transaction, journal_id: int, amount: int) -> Part:
    """Return the part for `amount`. A journal with several entries is refused: only the caller can divide the
    amount."""
    checked_amount(amount, of=f"journal {journal_id}")
    rows = await tx.fetch(PARTS, journal_id)
    if not rows:
        raise UnknownJournal(f"there is no journal {journal_id}")
    if len(rows) > 1:
        raise NotPossible(f"journal {journal_id} has several entries: give the amount of each with entries=[Part(...)]")
    return Part(rows[0]["id"], amount)
