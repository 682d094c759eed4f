"""The personal data in the ledger: account names, memos and keys, if the app writes personal data there."""

from __future__ import annotations

from onceward.trust.erase import Eraser

BOOKS = "The ledger is append-only, and the law requires keeping it: refer to people by ids there."

ERASERS: tuple[Eraser, ...] = (
    Eraser(
        name="ledger accounts",
        table="onceward.ledger_accounts",
        columns={"code": "text", "name": "text"},
        kept=BOOKS,
    ),
    Eraser(
        name="ledger journals",
        table="onceward.ledger_journals",
        columns={"key": "text", "memo": "text"},
        kept=BOOKS,
    ),
    Eraser(
        name="ledger periods",
        table="onceward.ledger_periods",
        columns={"closed_by": "text"},
        kept="Who closed the books must stay known as long as the books.",
    ),
)

UNSEARCHED: dict[str, str] = {
    "onceward.ledger_periods.balances": "codes of accounts and amounts",
    "onceward.ledger_periods.note": "why an accountant closed the books",
    "onceward.ledger_accounts.currency": "a currency",
    "onceward.ledger_journals.body": "a hash",
    "onceward.ledger_entries.currency": "a currency",
}
