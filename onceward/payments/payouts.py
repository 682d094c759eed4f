"""Payouts: money that the service sends to our bank. It is booked when it leaves the balance, and back if it fails."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from . import booking, store
from .declarations import Subject
from .errors import BooksDiffer
from .model import Books
from .service import PayoutReport

Row = Any

OWN_ACCOUNT = """
select * from onceward.payment_accounts
 where source = $1 and connected_account is not distinct from $2 and organization_id is not null
"""
STORE = """
insert into onceward.payment_payouts (organization_id, account_id, reference, status, amount, currency, arrives_at)
values ($1, $2, $3, $4, $5, $6, $7)
on conflict (account_id, reference) do update
   set status = case when payment_payouts.status = 'failed' or excluded.status = 'pending' then payment_payouts.status
                     else excluded.status end,
       arrives_at = coalesce(excluded.arrives_at, payment_payouts.arrives_at)
returning *
"""


async def apply(tx: Any, source: str, connected: str | None, report: PayoutReport) -> str:
    """Apply a report. Payouts of the installation's account belong to no organization, and are not booked."""
    account = await tx.fetchrow(OWN_ACCOUNT, source, connected)
    if account is None:
        return "foreign"
    if tx.organization is None:
        await tx.act_for(account["organization_id"])
    return await record(tx, account, report)


async def record(tx: Any, account: Row, report: PayoutReport) -> str:
    """Store a payout of an organization's own account, and book what changed."""
    amount, currency = report.amount.amount, report.amount.currency
    values = (account["organization_id"], account["id"], report.reference, report.state, amount, currency)
    payout = await tx.fetchrow(STORE, *values, report.arrives_at)
    booked = 0 if payout["status"] == "failed" else payout["amount"]
    more = booked - payout["booked"]
    if more == 0:
        return "known" if payout["status"] != report.state else payout["status"]
    if (books := books_of(tx.engine.registry.payments.subjects)) is not None:
        key = f"payout:{payout['id']}:{payout['bookings'] + 1}"
        journal = booking.NewJournal(key, "payout", [booking.signed(books.bank, books.cash, more)])
        await booking.post(tx, books, [journal], currency=payout["currency"], payout_id=payout["id"])
    await store.change(tx, "payment_payouts", payout["id"], booked=booked, bookings=payout["bookings"] + 1)
    return payout["status"]


def books_of(subjects: Mapping[str, Subject]) -> Books | None:
    """Return the books that payouts and fees of accounts are posted to. None: no app keeps any.

    Several apps share the accounts at a service, so they must name its cash, our bank and its fees alike. Raises
    `BooksDiffer` otherwise.
    """
    kept = [each.books for each in subjects.values() if each.books is not None]
    differing = {(each.cash, each.bank, each.service_fees) for each in kept}
    if len(differing) > 1:
        named = "; ".join(
            f"cash={cash!r}, bank={bank!r}, service_fees={fees!r}" for cash, bank, fees in sorted(differing)
        )
        raise BooksDiffer(
            f"several apps keep books of payments with different accounts ({named}), so nobody knows where a payout of"
            " the service belongs: give app.payments.books(Books(...)) of all of them the same cash, bank and "
            "service_fees"
        )
    return kept[0] if kept else None
