"""Close a period: its trial balance is frozen, and `onceward verify` reports if it ever differs from the entries.

Journals always have the time at which they are posted, so nothing can be posted into a period that is over.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from onceward.db import Transaction
from onceward.ledger.accounts import trial_balance
from onceward.ledger.errors import NotPossible
from onceward.ledger.model import TrialBalance
from onceward.trust.audit import record

CLOSING_MARGIN = timedelta(hours=1)
"""A period can be closed when it has been over for this long: transactions that began before have ended by then."""
LATEST = "select max(until) from onceward.ledger_periods where organization_id = $1"
LOCK = "select pg_advisory_xact_lock(hashtextextended('ledger period ' || $1::uuid, 0))"
ADD = """
insert into onceward.ledger_periods (organization_id, until, balances, note, closed_by) values ($1, $2, $3, $4, $5)
returning *
"""
LISTED = "select * from onceward.ledger_periods where organization_id = $1 order by until desc limit 500"


@dataclass(frozen=True, slots=True)
class Period:
    """A closed period. It ends before `until`, and begins where the one before ended."""

    until: datetime
    closed_at: datetime
    closed_by: str
    note: str
    balances: list[dict[str, Any]]


async def close_period(tx: Transaction, until: datetime, *, note: str = "", actor: str) -> Period:
    """Close the books before a time. A repeat returns the period as it was closed."""
    if until.utcoffset() is None:
        raise NotPossible(f"until {until.isoformat()} has no offset from UTC: write {until.isoformat()}Z for UTC")
    await tx.execute(LOCK, tx.organization)
    for period in await periods(tx):
        if period.until == until:
            return period
    now, latest = await tx.fetchval("select onceward.now()"), await tx.fetchval(LATEST, tx.organization)
    if until > now - CLOSING_MARGIN:
        raise NotPossible(f"until {until.isoformat()} is less than an hour ago, or to come: close the period later")
    if latest is not None and until < latest:
        raise NotPossible(f"until {until.isoformat()} lies in a closed period, which ends at {latest.isoformat()}")
    books = await trial_balance(tx, until=until)
    wrong = [book for book in books if book.difference]
    if wrong:
        raise NotPossible(
            f"the books in {wrong[0].currency} differ by {wrong[0].difference}: run `onceward ledger check`"
        )
    row = await tx.fetchrow(ADD, tx.organization, until, _frozen(books), note[:500], actor)
    assert row is not None
    changes = {"until": until.isoformat(), "accounts": sum(len(book.accounts) for book in books)}
    await record(
        tx, "period_closed", entity_type="ledger", entity_id=None, changes=changes, reason=note or None, actor=actor
    )
    return _period(row)


async def periods(tx: Transaction) -> list[Period]:
    """Return the closed periods, newest first."""
    return [_period(row) for row in await tx.fetch(LISTED, tx.organization)]


def _frozen(books: list[TrialBalance]) -> list[dict[str, Any]]:
    return [
        {
            "account_id": account.account_id,
            "code": account.code,
            "currency": account.currency,
            "kind": account.kind,
            "debits": account.debits,
            "credits": account.credits,
            "balance": account.balance,
        }
        for book in books
        for account in book.accounts
    ]


def _period(row: Any) -> Period:
    return Period(row["until"], row["closed_at"], row["closed_by"], row["note"], row["balances"])
