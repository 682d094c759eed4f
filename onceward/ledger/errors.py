"""The errors of the ledger. All except `InvalidEntry` abort the transaction; post under a savepoint to continue.

LedgerError
├── InvalidEntry       an amount, currency, code or key is not valid; nothing was sent
├── UnknownAccount     the account is not open in this organization and currency
├── AccountDiffers     the account is open with another kind or bound
├── UnknownJournal     no journal of this organization has that id
├── KeyConflict        the key was used for another journal
├── Insufficient       a bounded account would fall below zero
├── OverDrawn          a reversal or settlement exceeds what is left of the original
└── NotPossible        the journal cannot be settled, voided or reversed in its state
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

import asyncpg

from onceward.errors import OncewardError
from onceward.trust.sqlstates import NEEDS_ORGANIZATION


class LedgerError(OncewardError):
    """The base of the errors of the ledger. The message names the account, journal or key."""


class InvalidEntry(LedgerError, ValueError):
    """An argument is not valid. Python checks this before anything is sent to the database."""


class UnknownAccount(LedgerError):
    """The account is not open in this organization and currency. Open it first with `open_account`."""


class AccountDiffers(LedgerError):
    """The account is open with another kind or bound, which never change. Choose another code."""


class UnknownJournal(LedgerError):
    """The journal does not exist, or belongs to another organization."""


class KeyConflict(LedgerError):
    """A journal with other content was already posted under this key. That journal stays."""


class Insufficient(LedgerError):
    """A bounded account would fall below zero. Nothing was posted."""


class OverDrawn(LedgerError):
    """A reversal or settlement exceeds what is left of an original entry."""


class NotPossible(LedgerError):
    """The state of the journal does not allow this, such as settling a voided journal or reversing a reversal."""


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
    """Translate the database errors of the ledger's functions and constraints into `LedgerError`s."""
    try:
        yield
    except asyncpg.PostgresError as error:
        kind = _BY_CODE.get(str(error.sqlstate)) or _BY_CONSTRAINT.get(str(getattr(error, "constraint_name", "")))
        if kind is None:
            raise
        raise kind(str(error)) from error
