"""Accounts, entries, journals and balances as values. Amounts are integer minor units; a float never gets in."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from onceward.ledger.errors import InvalidEntry

Kind = Literal["asset", "liability", "equity", "revenue", "expense"]
JournalKind = Literal["posted", "pending", "settlement", "void", "reversal"]

LARGEST = 2**53 - 1
"""The largest amount: what every JSON reader keeps exactly."""

_CURRENCY = re.compile(r"[A-Z]{3}")
_CODE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:/-]{0,99}")


def checked_amount(amount: object, *, of: str) -> int:
    """An amount that can be posted, or `InvalidEntry` naming what it was for."""
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
        raise InvalidEntry(f"account code {code!r} is not 1-100 of letters, digits and _ . : / -")
    return code


def checked_key(key: str) -> str:
    if not 1 <= len(key) <= 200:
        raise InvalidEntry(f"key of {len(key)} characters: give 1 to 200 that name what is posted")
    return key


@dataclass(frozen=True, slots=True)
class Entry:
    """`amount` moves from the credited account to the debited one; both are named by code."""

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
    """How much of one entry of a journal is to be reversed or settled."""

    entry_id: int
    amount: int

    def __post_init__(self) -> None:
        checked_amount(self.amount, of=f"entry {self.entry_id}")


@dataclass(frozen=True, slots=True)
class Account:
    id: int
    code: str
    currency: str
    kind: Kind
    bounded: bool
    name: str | None = None


@dataclass(frozen=True, slots=True)
class Journal:
    """`fresh` is false when the key had been posted before and this is that journal again."""

    id: int
    key: str
    fresh: bool


@dataclass(frozen=True, slots=True)
class Balance:
    """`balance` is positive on the account's own side: debit for assets and expenses, credit for the others."""

    code: str
    currency: str
    kind: Kind
    debits: int
    credits: int
    balance: int
    pending_debits: int
    pending_credits: int

    @property
    def available(self) -> int:
        """The balance less what pending entries would take from it."""
        return self.balance - (self.pending_credits if self.kind in ("asset", "expense") else self.pending_debits)


@dataclass(frozen=True, slots=True)
class Line:
    """One entry as its account's statement shows it; `amount` is negative when it lowers the balance."""

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
    """All accounts of one currency. `difference` is zero, or the database has been tampered with."""

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
