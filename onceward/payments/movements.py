"""Book what only the balance of the service says: its fees, and payouts that no event has reported.

A fee belongs to the payment whose charge moved, or to the account. Each movement is booked once, by its id there.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any
from uuid import UUID

from onceward.statements import read_statement

from . import booking, payouts, positions, store
from .declarations import service_class
from .reports import registry_of
from .service import BalanceLine, PayoutReport

Row = Any
WITH_FEES = frozenset({"payment", "refund", "refund_failed"})
"""Movements whose fee belongs to the payment. The fee of a dispute is reported with the dispute."""
AT_ONCE = 500
UNREAD = read_statement("payments", "unread_fees")
UNREAD_OF_ACCOUNT = """
select reference from unnest($2::text[]) reference where not exists (
    select from onceward.payment_fees f where f.account_id = $1 and f.reference = reference.reference)
"""
ADD = """
insert into onceward.payment_fees (account_id, payment_id, reference, amount, currency, taken_at)
select $1, $2, f.* from unnest($3::text[], $4::bigint[], $5::text[], $6::timestamptz[]) f on conflict do nothing
returning reference
"""
SUM = "select coalesce(sum(amount), 0)::bigint from onceward.payment_fees where payment_id = $1"
PAYOUTS = "select reference, status from onceward.payment_payouts where account_id = $1 and reference = any ($2)"


async def book(engine: Any, account: Row, lines: Sequence[BalanceLine]) -> int:
    """Book the fees and payouts among these movements that are not booked yet, and return how many there were."""
    done = await _fees_of_payments(engine, account["id"], lines)
    if account["organization_id"] is not None:
        done += await _fees_of_account(engine, account, lines)
        done += await _payouts(engine, account, lines)
    return done


async def _fees_of_payments(engine: Any, account_id: UUID, lines: Sequence[BalanceLine]) -> int:
    charged = [each for each in lines if each.kind in WITH_FEES and each.charge is not None and each.fee.amount != 0]
    done = 0
    for start in range(0, len(charged), AT_ONCE):
        portion = charged[start : start + AT_ONCE]
        async with engine.db.transaction(role="engine") as tx:
            rows = await tx.fetch(UNREAD, account_id, [each.charge for each in portion], *_columns(portion))
        for payment_id, fees in groupby(rows, key=lambda row: row["payment_id"]):
            done += await _add(engine, account_id, payment_id, list(fees))
    return done


async def _add(engine: Any, account_id: UUID, payment_id: UUID, fees: Sequence[Row]) -> int:
    async with engine.transaction(organization=fees[0]["organization_id"]) as tx:
        row = await store.lock(tx, payment_id)
        columns = [[each[name] for each in fees] for name in ("reference", "amount", "currency", "taken_at")]
        added = await tx.fetch(ADD, account_id, payment_id, *columns)
        values: dict[str, Any] = {"fee": await tx.fetchval(SUM, payment_id), "fee_read_at": row["now"]}
        row = store.merged(row, await store.change(tx, "payments", payment_id, **values))
        await positions.update(tx, registry_of(tx).subject(row["subject_type"]).books, row)
    return len(added)


async def _fees_of_account(engine: Any, account: Row, lines: Sequence[BalanceLine]) -> int:
    """Book what the service takes for the account itself, such as a monthly fee."""
    taken = {each.reference: each for each in lines if each.kind == "fee" and each.charge is None}
    async with engine.db.transaction(role="engine") as tx:
        unread = [row["reference"] for row in await tx.fetch(UNREAD_OF_ACCOUNT, account["id"], list(taken))]
    for reference in unread:
        line = taken[reference]
        amount = line.fee.amount - line.amount.amount
        async with engine.transaction(organization=account["organization_id"]) as tx:
            values = ([reference], [amount], [line.amount.currency], [line.at])
            books = payouts.books_of(registry_of(tx).subjects)
            if await tx.fetch(ADD, account["id"], None, *values) and books is not None:
                entries = [booking.signed(books.service_fees, books.cash, amount)]
                journal = booking.NewJournal(f"fee:{account['id']}:{reference}", "fee", entries)
                await booking.post(tx, books, [journal], currency=line.amount.currency)
    return len(unread)


async def _payouts(engine: Any, account: Row, lines: Sequence[BalanceLine]) -> int:
    moved = sorted((each for each in lines if each.kind in ("payout", "payout_failed")), key=lambda each: each.at)
    async with engine.db.transaction(role="engine") as tx:
        rows = await tx.fetch(PAYOUTS, account["id"], [payout_of(each) for each in moved])
    known = {row["reference"]: row["status"] for row in rows}
    done = 0
    for line in moved:
        reference, failed = payout_of(line), line.kind == "payout_failed"
        if reference in known and (not failed or known[reference] == "failed"):
            continue
        ends_by_event = service_class(account["service"]).reports_payouts
        known[reference] = "failed" if failed else "pending" if ends_by_event else "paid"
        report = PayoutReport(reference=reference, state=known[reference], amount=abs_of(line), at=line.at)
        async with engine.transaction(organization=account["organization_id"]) as tx:
            await payouts.record(tx, account, report)
        done += 1
    return done


def payout_of(line: BalanceLine) -> str:
    """Return the id of the payout that a movement is about: one that failed may have an id of its own."""
    return (line.charge if line.kind == "payout_failed" else None) or line.source or line.reference


def abs_of(line: BalanceLine) -> Any:
    return type(line.amount)(abs(line.amount.amount), line.amount.currency)


def _columns(lines: Sequence[BalanceLine]) -> tuple[list[Any], ...]:
    return (
        [each.reference for each in lines],
        [each.fee.amount for each in lines],
        [each.fee.currency for each in lines],
        [each.at for each in lines],
    )
