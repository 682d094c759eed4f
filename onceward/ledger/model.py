"""The values of the ledger: accounts, entries, journals, balances. Amounts are integer minor units, never floats."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from onceward.ledger.errors import InvalidEntry

Kind = Literal["asset", "liability", "equity", "revenue", "expense"]
"""What an account is in the books."""
JournalKind = Literal["posted", "pending", "settlement", "void", "reversal"]

LARGEST = 2**53 - 1
"""The largest amount: the largest integer that every JSON reader keeps exactly."""

_CURRENCY = re.compile(r"[A-Z]{3}")
_CODE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:/-]{0,99}")


def checked_amount(amount: object, *, of: str) -> int:
    """Return the amount if it can be posted. Otherwise raise `InvalidEntry`, which names `of`."""
    if isinstance(amount, bool) or not isinstance(amount, int):
        raise InvalidEntry(f"amount of {of} is {amount!r}: give whole minor units (cents), not {type(amount).__name__}")
    if not 1 <= amount <= LARGEST:
        raise InvalidEntry(f"amount of {of} is {amount}: it must be between 1 and {LARGEST}; leave out entries of zero")
    return amount


def checked_currency(currency: str) -> str:
    if not _CURRENCY.fullmatch(currency):
        raise InvalidEntry(f"currency {currency!r} is not a code of three capital letters, such as EUR")
    return currency


def checked_code(code: str) -> str:
    if not _CODE.fullmatch(code):
        raise InvalidEntry(
            f"account code {code!r} must have 1 to 100 characters: letters, digits and _ . : / -, with a letter "
            f"or digit first"
        )
    return code


def checked_key(key: str) -> str:
    if not 1 <= len(key) <= 200:
        raise InvalidEntry(f"the key of a journal must have 1 to 200 characters, not {len(key)}")
    return key


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry: `amount` moves from the account `credit` to the account `debit`, both given by code."""

    debit: str
    credit: str
    amount: int
    currency: str

    def __post_init__(self) -> None:
        checked_code(self.debit)
        checked_code(self.credit)
        checked_currency(self.currency)
        if self.debit == self.credit:
            raise InvalidEntry(f"account {self.debit!r} is on both sides of an entry")
        checked_amount(self.amount, of=f"{self.debit} / {self.credit}")


@dataclass(frozen=True, slots=True)
class Part:
    """The amount of one entry to reverse or settle."""

    entry_id: int
    amount: int

    def __post_init__(self) -> None:
        checked_amount(self.amount, of=f"entry {self.entry_id}")


@dataclass(frozen=True, slots=True)
class Account:
    """One account of the ledger, in one currency."""

    id: int
    code: str
    currency: str
    kind: Kind
    bounded: bool
    name: str | None = None


@dataclass(frozen=True, slots=True)
class Journal:
    """A posted journal. `fresh` is false if an earlier call posted it under the same key."""

    id: int
    key: str
    fresh: bool


@dataclass(frozen=True, slots=True)
class Balance:
    """The balance of an account: positive for debits of assets and expenses, and for credits of other kinds."""

    code: str
    currency: str
    kind: Kind
    debits: int
    credits: int
    balance: int
    pending_debits: int
    pending_credits: int
    account_id: int = 0

    @property
    def available(self) -> int:
        """The balance minus the amounts that pending entries would take from it."""
        return self.balance - (self.pending_credits if self.kind in ("asset", "expense") else self.pending_debits)


@dataclass(frozen=True, slots=True)
class StatementLine:
    """One line of a statement. `amount` is negative if the entry lowers the balance."""

    entry_id: int
    journal_id: int
    journal_kind: JournalKind
    key: str
    memo: str | None
    other: str
    amount: int
    balance: int
    at: datetime
    caused_by: int | None


@dataclass(frozen=True, slots=True)
class TrialBalance:
    """All accounts of one currency. A `difference` other than zero means that the tables were manipulated."""

    currency: str
    accounts: tuple[Balance, ...]

    @property
    def debits(self) -> int:
        return sum(account.debits for account in self.accounts)

    @property
    def credits(self) -> int:
        return sum(account.credits for account in self.accounts)

    @property
    def difference(self) -> int:
        return self.debits - self.credits
