"""What the ledger holds about a person: names of accounts, memos and keys, where the app writes a person there."""

from __future__ import annotations

from onceward.trust.erase import Eraser

BOOKS = "Books are append-only, and the law asks to keep them: refer to people by ids there."

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
)

UNSEARCHED: dict[str, str] = {
    "onceward.ledger_accounts.currency": "a currency",
    "onceward.ledger_journals.body": "a hash",
    "onceward.ledger_entries.currency": "a currency",
}
