"""Write to the ledger: post, settle or void what is pending, reverse. Each is one round trip and one journal.

    pending ──settle──▶ settlement ──reverse──▶ reversal
       └─────void────▶ void
    posted ──reverse──▶ reversal

Nothing is ever changed: a settlement and a reversal are journals of their own, bounded by the entries they are about.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from onceward.db import Transaction
from onceward.ledger.errors import InvalidEntry, NotPossible, UnknownJournal, named_errors
from onceward.ledger.model import Entry, Journal, Part, checked_amount, checked_key

POST = "select journal_id, fresh from onceward.ledger_post($1, $2, $3, $4, $5, $6, $7)"
DRAW = "select journal_id, fresh from onceward.ledger_draw($1, $2, $3, $4, $5, $6)"
PARTS = "select id from onceward.ledger_entries where journal_id = $1 order by id limit 2"


async def post(
    tx: Transaction, entries: Sequence[Entry], *, key: str, memo: str | None = None, pending: bool = False
) -> Journal:
    """Write these entries as one journal. The same key with the same body returns the journal it made at first."""
    if not entries:
        raise InvalidEntry(f"journal {key!r} has no entries: post nothing when there is nothing to post")
    with named_errors():
        row = await tx.fetchrow(
            POST,
            checked_key(key),
            [entry.debit for entry in entries],
            [entry.credit for entry in entries],
            [entry.amount for entry in entries],
            [entry.currency for entry in entries],
            memo,
            pending,
        )
    assert row is not None
    return Journal(row["journal_id"], key, row["fresh"])


async def reverse(
    tx: Transaction,
    journal_id: int,
    *,
    key: str,
    amount: int | None = None,
    entries: Sequence[Part] | None = None,
    memo: str | None = None,
) -> Journal:
    """Take back all that is left of a posted journal, `amount` of its only entry, or these parts of its entries."""
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
    """Post a pending journal, in full or in part. What is not settled now is given back: a journal settles once."""
    return await _draw(tx, "settlement", journal_id, key=key, amount=amount, entries=entries, memo=memo)


async def void(tx: Transaction, journal_id: int, *, key: str, memo: str | None = None) -> Journal:
    """Give back what a pending journal reserved. Nothing of it was ever posted."""
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
            raise InvalidEntry("give amount or entries, not both")
        parts = [await _only_entry(tx, journal_id, amount)]
    if parts is not None and not parts:
        raise InvalidEntry(f"no entries of journal {journal_id} given: leave entries out to take all that is left")
    ids = None if parts is None else [part.entry_id for part in parts]
    if ids is not None and len(set(ids)) != len(ids):
        raise InvalidEntry(f"an entry of journal {journal_id} is named twice: {ids}")
    amounts = None if parts is None else [part.amount for part in parts]
    with named_errors():
        row = await tx.fetchrow(DRAW, kind, checked_key(key), journal_id, ids, amounts, memo)
    assert row is not None
    return Journal(row["journal_id"], key, row["fresh"])


async def _only_entry(tx: Transaction, journal_id: int, amount: int) -> Part:
    """The entry an amount is meant for; over several, only the caller knows how to spread it."""
    checked_amount(amount, of=f"journal {journal_id}")
    rows = await tx.fetch(PARTS, journal_id)
    if not rows:
        raise UnknownJournal(f"no such journal: {journal_id}")
    if len(rows) > 1:
        raise NotPossible(f"journal {journal_id} has several entries: say with entries=[Part(..)] how much of each")
    return Part(rows[0]["id"], amount)
