"""What the ledger refuses, by name. What the database refused ends the transaction, unless under a savepoint.

LedgerError
├── InvalidEntry       an amount, currency or account that no ledger could hold; nothing was sent
├── UnknownAccount     an account that is not open in this organization and currency
├── AccountDiffers     the account is open, as another kind or with another bound
├── UnknownJournal     no journal of this organization has that id
├── KeyConflict        the key was used before, for something else
├── Insufficient       a bounded account would fall below zero
├── OverDrawn          more than is left of the original was to be reversed or settled
└── NotPossible        a journal in this state cannot be settled, voided or reversed
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

import asyncpg

from onceward.db.sqlstates import NEEDS_ORGANIZATION


class LedgerError(Exception):
    """The message names the account, journal or key and says why."""


class InvalidEntry(LedgerError, ValueError):
    """Checked when the entry is made, before the database is asked."""


class UnknownAccount(LedgerError):
    """Open the account first (`open_account`); its code, currency and organization must all match."""


class AccountDiffers(LedgerError):
    """An account keeps its kind and bound for ever: choose another code."""


class UnknownJournal(LedgerError):
    """It does not exist, or belongs to another organization."""


class KeyConflict(LedgerError):
    """Two different things were posted under one key. The first stands."""


class Insufficient(LedgerError):
    """Nothing was posted."""


class OverDrawn(LedgerError):
    """Reversals and settlements are bounded by the original, entry by entry."""


class NotPossible(LedgerError):
    """For example: settling what was voided, or reversing a reversal."""


_BY_CODE: dict[str, type[LedgerError]] = {
    NEEDS_ORGANIZATION: LedgerError,
    "OW103": UnknownAccount,
    "OW104": KeyConflict,
    "OW105": Insufficient,
    "OW106": UnknownJournal,
    "OW107": NotPossible,
    "OW108": OverDrawn,
    "OW109": LedgerError,
    "OW110": AccountDiffers,
}
_BY_CONSTRAINT: dict[str, type[LedgerError]] = {
    "ledger_not_below_zero": Insufficient,
    "ledger_not_overdrawn": OverDrawn,
    "ledger_pending_ends_once": NotPossible,
}


@contextmanager
def named_errors() -> Generator[None]:
    """Raise the ledger's own errors for those that its functions and constraints raise."""
    try:
        yield
    except asyncpg.PostgresError as error:
        kind = _BY_CODE.get(str(error.sqlstate)) or _BY_CONSTRAINT.get(str(getattr(error, "constraint_name", "")))
        if kind is None:
            raise
        raise kind(str(error)) from error
