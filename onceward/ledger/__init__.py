"""A double-entry ledger. Entries are append-only, and every balance can be recomputed from them."""

from typing import TYPE_CHECKING

from onceward.lazy import lazy

if TYPE_CHECKING:
    from onceward.ledger.accounts import balance, open_account, statement, trial_balance
    from onceward.ledger.checkpoints import checkpoint
    from onceward.ledger.checks import CHECKS, check
    from onceward.ledger.closed_periods import CLOSING_MARGIN, close_period, periods
    from onceward.ledger.entry_file import export, export_apart
    from onceward.ledger.errors import (
        AccountDiffers,
        Insufficient,
        InvalidEntry,
        KeyConflict,
        LedgerError,
        NotPossible,
        OverDrawn,
        UnknownAccount,
        UnknownJournal,
        named_errors,
    )
    from onceward.ledger.journals import post, post_alone, reverse, settle, void
    from onceward.ledger.model import Account, Balance, Entry, Journal, Kind, Part, StatementLine, TrialBalance

__all__ = [
    "CHECKS",
    "CLOSING_MARGIN",
    "Account",
    "AccountDiffers",
    "Balance",
    "Entry",
    "Insufficient",
    "InvalidEntry",
    "Journal",
    "KeyConflict",
    "Kind",
    "LedgerError",
    "NotPossible",
    "OverDrawn",
    "Part",
    "StatementLine",
    "TrialBalance",
    "UnknownAccount",
    "UnknownJournal",
    "balance",
    "check",
    "checkpoint",
    "close_period",
    "export",
    "export_apart",
    "named_errors",
    "open_account",
    "periods",
    "post",
    "post_alone",
    "reverse",
    "settle",
    "statement",
    "trial_balance",
    "void",
]

__getattr__ = lazy(__name__, __file__)
