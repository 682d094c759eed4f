"""Open accounts and read them: balance, statement, trial balance. Reads take no locks."""

from __future__ import annotations

from datetime import datetime
from typing import Any, cast, get_args

from onceward.db import Transaction
from onceward.ledger.errors import InvalidEntry, UnknownAccount, named_errors
from onceward.ledger.model import Account, Balance, Kind, StatementLine, TrialBalance, checked_code, checked_currency
from onceward.statements import read_statement

OPEN = "select onceward.ledger_open($1, $2, $3, $4, $5)"
BALANCE = "select * from onceward.ledger_balances where organization_id = $1 and code = $2 and currency = $3"
BALANCES_UNTIL = read_statement("ledger", "list_balances_until")
BALANCES = read_statement("ledger", "list_balances")
STATEMENT = read_statement("ledger", "account_statement")


async def open_account(
    tx: Transaction, code: str, *, currency: str, kind: Kind, bounded: bool = False, name: str | None = None
) -> Account:
    """Open an account, or return it if it is open.

    A `bounded` account cannot fall below zero; its postings are serialized.
    """
    if kind not in get_args(Kind):
        raise InvalidEntry(f"kind {kind!r} of account {code!r} is not one of {', '.join(get_args(Kind))}")
    with named_errors():
        account_id = await tx.fetchval(OPEN, checked_code(code), checked_currency(currency), kind, bounded, name)
    return Account(cast(int, account_id), code, currency, kind, bounded, name)


async def balance(tx: Transaction, code: str, *, currency: str) -> Balance:
    """Return the current balance: the checkpoint plus all entries posted after it."""
    row = await tx.fetchrow(BALANCE, tx.organization, checked_code(code), checked_currency(currency))
    if row is None:
        raise UnknownAccount(f"there is no account {code} in {currency}")
    return _balance(row)


async def trial_balance(
    tx: Transaction, *, currency: str | None = None, until: datetime | None = None
) -> list[TrialBalance]:
    """Return one trial balance per currency, with all accounts of the organization.

    With `until`, as the balances were before that time; pending entries are left out.
    """
    if until is None:
        rows = await tx.fetch(BALANCES, tx.organization, currency)
    else:
        rows = await tx.fetch(BALANCES_UNTIL, tx.organization, currency, until)
    by_currency: dict[str, list[Balance]] = {}
    for row in rows:
        by_currency.setdefault(row["currency"], []).append(_balance(row))
    return [TrialBalance(currency, tuple(accounts)) for currency, accounts in by_currency.items()]


async def statement(
    tx: Transaction, code: str, *, currency: str, after: int = 0, limit: int = 100
) -> list[StatementLine]:
    """Return posted entries in order, with the running balance. `after` is the last `entry_id` of the previous page."""
    if limit < 1:
        raise InvalidEntry(f"limit is {limit}: it must be 1 or more")
    exists = await tx.fetchval(
        "select 1 from onceward.ledger_accounts where organization_id = $1 and code = $2 and currency = $3",
        tx.organization,
        checked_code(code),
        checked_currency(currency),
    )
    if exists is None:
        raise UnknownAccount(f"there is no account {code} in {currency}")
    rows = await tx.fetch(STATEMENT, tx.organization, code, currency, after, limit)
    return [
        StatementLine(
            entry_id=row["id"],
            journal_id=row["journal_id"],
            journal_kind=row["kind"],
            key=row["key"],
            memo=row["memo"],
            other=row["other"],
            amount=row["amount"],
            balance=int(row["balance"]),
            at=row["created_at"],
            caused_by=row["caused_by"],
        )
        for row in rows
    ]


def _balance(row: Any) -> Balance:
    return Balance(
        code=row["code"],
        currency=row["currency"],
        kind=row["kind"],
        debits=int(row["debits"]),
        credits=int(row["credits"]),
        balance=int(row["balance"]),
        pending_debits=int(row["pending_debits"]),
        pending_credits=int(row["pending_credits"]),
        account_id=row["account_id"],
    )
