"""Settle with an organizer whose buyers pay on the platform's own accounts: a frozen statement, and the payout.

The statement of a period has what payments moved by event, the fees of the platform, and what is paid out. The payout
is booked when it was made, often in a later period: cash becomes bank money of the organizer, and the fees leave it.
Fees count in the period in which they arose, and never because a payout was booked then.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from onceward import Engine
from onceward.db import Transaction
from onceward.ledger import CLOSING_MARGIN, Entry, open_account, post, trial_balance
from onceward.trust import record
from onceward_apps.ticketing.errors import Exists, Invalid, NotFound
from onceward_apps.ticketing.event_setup import check_offset
from onceward_apps.ticketing.store import books as accounting

FEES = ("platform_fee", "platform_fee_payable")
"""Accounts with what the organizer owes the platform."""


async def settle(engine: Engine, organization: UUID, *, currency: str, until: datetime, actor: str) -> Any:
    """Make the statement of an organizer up to a time. A repeat for the same time returns it."""
    check_offset("until", until)
    async with engine.db.transaction(role="engine", organization=organization) as tx:
        await accounting.lock_settlements(tx, organization, currency)
        last = await accounting.last_settlement(tx, organization, currency)
        if last is not None and last["until"] == until:
            return last
        now = await tx.fetchval("select onceward.now()")
        if until > now - CLOSING_MARGIN:
            # A transaction that began before `until` may still commit: its journal would be in no period.
            raise Invalid(f"until {until.isoformat()} is less than an hour ago, or to come: settle later")
        if last is not None and last["paid_at"] is None:
            raise Exists(f"settlement {last['number']} in {currency} is not paid yet: pay it first")
        if last is not None and until < last["until"]:
            raise Invalid(f"until {until.isoformat()} was settled already, up to {last['until'].isoformat()}")
        since = None if last is None else last["until"]
        statement = await _statement(tx, organization, currency, since, until)
        if statement["payout_cents"] <= 0:
            raise Invalid(
                f"nothing is to be paid out in {currency}: payments brought {statement['cash_cents']},"
                f" and the fees are {statement['fee_cents']}"
            )
        number = 1 if last is None else last["number"] + 1
        values = (organization, number, currency, since, until, statement["payout_cents"], statement)
        made = await accounting.add_settlement(tx, *values)
        changes = {"number": number, "currency": currency, "payout_cents": statement["payout_cents"]}
        await record(
            tx, "settlement_made", entity_type="Settlement", entity_id=made["id"], changes=changes, actor=actor
        )
    return made


async def _statement(
    tx: Transaction, organization: UUID, currency: str, since: datetime | None, until: datetime
) -> dict[str, Any]:
    rows = await accounting.cash(tx, organization, currency, since, until)
    cash = sum(row["received_cents"] + row["other_cents"] for row in rows)
    books = await trial_balance(tx, currency=currency, until=until)
    fees = {account.code: account.balance for book in books for account in book.accounts if account.code in FEES}
    # What earlier settlements took and paid out after `until` is still in the balance of that time.
    for code, cents in await accounting.fees_paid_later(tx, organization, currency, until):
        fees[code] -= cents
    fee = sum(fees.values())
    return {
        "events": [
            {
                "id": str(row["event_id"]),
                "name": row["event"],
                "starts_at": row["starts_at"].isoformat(),
                "payments": row["payments"],
                "received_cents": row["received_cents"],
                "refunds_and_fees_cents": row["other_cents"],
            }
            for row in rows
        ],
        "cash_cents": cash,
        "fees": fees,
        "fee_cents": fee,
        "payout_cents": cash - fee,
    }


async def pay_out(engine: Engine, organization: UUID, *, currency: str, number: int, reference: str, actor: str) -> Any:
    """Record that the payout was made. A repeat with the same reference changes nothing."""
    if not reference.strip():
        raise Invalid("reference is empty: give that of the bank transfer")
    async with engine.db.transaction(role="engine", organization=organization) as tx:
        row = await accounting.lock_settlement(tx, organization, currency, number)
        if row is None:
            raise NotFound(f"there is no settlement {number} in {currency}")
        if row["paid_at"] is not None:
            if row["paid_reference"] == reference:
                return row
            raise Exists(f"settlement {number} was paid with the reference {row['paid_reference']!r}")
        fees = row["statement"]["fees"]
        await open_account(tx, "bank", currency=currency, kind="asset")
        entries = [Entry(code, "cash", cents, currency) for code, cents in fees.items() if cents > 0]
        entries += [Entry("cash", code, -cents, currency) for code, cents in fees.items() if cents < 0]
        entries.append(Entry("bank", "cash", row["payout_cents"], currency))
        journal = await post(tx, entries, key=f"settlement:{row['id']}", memo=f"settlement {number}")
        changes = {"number": number, "reference": reference}
        await record(tx, "settlement_paid", entity_type="Settlement", entity_id=row["id"], changes=changes, actor=actor)
        return await accounting.pay_settlement(tx, row["id"], reference, journal.id)
