"""How each table of the feature `ledger` is bounded, or why it is kept."""

from __future__ import annotations

GROWTH: dict[str, str] = {
    "onceward.ledger_accounts": "kept: one row for each account",
    "onceward.ledger_journals": "kept for ever: bookkeeping",
    "onceward.ledger_entries": "kept for ever: bookkeeping",
    "onceward.ledger_periods": "kept for ever: one row for each closed period",
    "onceward.ledger_pending": "kept for ever: bookkeeping",
    "onceward.ledger_drawn": "kept for ever: bookkeeping",
    "onceward.ledger_bounds": "kept: one row for each account with a limit",
    "onceward.ledger_horizon": "one row",
    "onceward.ledger_marks": "kept: one row for each 1,000 entries of an account",
    "onceward.ledger_checkpoints": "kept for ever: proven balances of the bookkeeping",
}
