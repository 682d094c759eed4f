"""Check an account: list the movements of its balance, book its fees and payouts, compare the rest with our tables,
store what differs. A job does it every day and reports; `payments check` does it now."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from onceward.db import Database
from onceward.services import NotSet, Services
from onceward.statements import read_statement

from . import movements
from .calls import again, service_for
from .comparison import OF_CHARGES, Difference, compare_payment, compare_payouts
from .declarations import is_by_hand
from .errors import PaymentError
from .service import BalanceLine, BalancePage, PaymentService

Row = Any
Lines = dict[str, list[BalanceLine]]
COMPARE = read_statement("payments", "compare_payments")
STORE = read_statement("payments", "store_differences")
RESOLVE = read_statement("payments", "resolve_differences")
ACCOUNTS = """
select *, organization_id as account_owner, name as account_name, onceward.now() as now from onceward.payment_accounts
 where ($1::text is null or name = $1) and ($2::uuid is null or id = $2) order by name, organization_id nulls first
"""
PAYOUTS = "select * from onceward.payment_payouts where account_id = $1 and reference = any ($2)"
OVERLAP = timedelta(days=2)
"""The list begins earlier than the period: a report, and so our row, may be later than the movement."""
ONE_MINUTE = timedelta(minutes=1)
AT_ONCE = 500


@dataclass(frozen=True, slots=True)
class CheckedAccount:
    """What the check of one account found. `failure` says why it could not be checked."""

    account: str
    service: str
    organization: UUID | None
    compared: int = 0
    in_progress: int = 0
    """Payments that changed a moment ago or have an unfinished refund. The next check compares them."""
    foreign: int = 0
    """Movements of other software on the same account."""
    booked: int = 0
    """Fees and payouts that only the balance says, and that are booked now."""
    differences: tuple[Difference, ...] = ()
    failure: str | None = None


@dataclass(frozen=True, slots=True)
class _Period:
    since: datetime
    settled_until: datetime


async def check_accounts(
    engine: Any, services: Services, *, name: str | None, since: datetime, settled_until: datetime
) -> list[CheckedAccount]:
    """Check all accounts, or those with this name, and store the differences.

    Payments that changed after `settled_until` are left out.
    """
    async with engine.db.transaction(role="engine") as tx:
        accounts = await tx.fetch(ACCOUNTS, name, None)
    return [await check_account(engine, services, each, since=since, settled_until=settled_until) for each in accounts]


async def check_account(
    engine: Any, services: Services, account: Row, *, since: datetime, settled_until: datetime
) -> CheckedAccount:
    """Check one account, a row of `ACCOUNTS`."""
    checked = (account["name"], account["service"], account["organization_id"])
    if is_by_hand(account["service"]):
        return CheckedAccount(*checked)  # there is no balance to compare with
    try:
        service = await service_for(services, account)
        lines = await _list(service, since=since - OVERLAP, until=account["now"] + ONE_MINUTE)
    except (NotSet, PaymentError) as error:
        return CheckedAccount(*checked, failure=str(error))
    booked = await movements.book(engine, account, lines)
    by_charge: Lines = {}
    for line in lines:
        if line.kind in OF_CHARGES and (line.kind != "fee" or line.charge is not None):
            by_charge.setdefault(line.charge or "", []).append(line)
    payouts = [each for each in lines if each.kind in ("payout", "payout_failed") and each.at <= settled_until]
    found = await _compare(engine.db, account, _Period(since, settled_until), by_charge, payouts)
    return replace(found, booked=booked)


async def _list(service: PaymentService, *, since: datetime, until: datetime) -> list[BalanceLine]:
    lines: list[BalanceLine] = []
    cursor: str | None = None
    while True:
        page = await service.list_balance(cursor, since=since, until=until)
        if not isinstance(page, BalancePage):
            raise PaymentError(f"the movements cannot be listed: {again(page)}")
        lines += page.lines
        if not page.has_more:
            return lines
        if page.cursor == cursor:
            raise PaymentError(f"the service lists the same page again after {cursor}")
        cursor = page.cursor


async def _compare(
    db: Database, account: Row, period: _Period, by_charge: Lines, payouts: Sequence[BalanceLine]
) -> CheckedAccount:
    """Compare in small transactions, and store the result in the last one."""
    found: list[Difference] = []
    compared: set[UUID] = set()
    skipped: set[UUID] = set()
    named: set[str] = set()
    for charges in _portions(list(by_charge)):
        async with db.transaction(role="engine") as tx:
            rows = await tx.fetch(COMPARE, account["id"], charges, period.since, not charges)
        for row in rows:
            if row["id"] in compared or row["id"] in skipped:
                continue
            named.update(row["names"])
            lines = [line for name in row["names"] for line in by_charge[name]]
            if _is_in_progress(row, lines, period.settled_until):
                skipped.add(row["id"])
                continue
            compared.add(row["id"])
            is_new = row["created_at"] >= period.since
            found += compare_payment({**dict(row), "is_new": is_new}, lines)
    references = [movements.payout_of(each) for each in payouts]
    async with db.transaction(role="engine") as tx:
        if account["organization_id"] is not None:
            rows = await tx.fetch(PAYOUTS, account["id"], references)
            known = {row["reference"]: row for row in rows}
            found += compare_payouts(account["organization_id"], known, payouts)
        kinds, names = [each.kind for each in found], [each.reference for each in found]
        await tx.execute(RESOLVE, account["id"], list(compared), references, kinds, names)
        organizations, ids = [each.organization for each in found], [each.payment_id for each in found]
        await tx.execute(STORE, account["id"], organizations, ids, kinds, names, [each.detail for each in found])
    foreign = sum(len(lines) for name, lines in by_charge.items() if name not in named)
    return CheckedAccount(
        account["name"], account["service"], account["organization_id"],
        len(compared), len(skipped), foreign, differences=tuple(found),
    )  # fmt: skip


def _is_in_progress(row: Row, lines: Sequence[BalanceLine], settled_until: datetime) -> bool:
    changed = [each.at for each in lines]
    if row["changed_at"] is not None:
        changed.append(row["changed_at"])
    return row["is_unfinished"] or any(at > settled_until for at in changed)


def _portions(charges: list[str]) -> Iterator[list[str]]:
    """Yield the charges in portions, then an empty portion for the payments that no movement names."""
    for start in range(0, len(charges), AT_ONCE):
        yield charges[start : start + AT_ONCE]
    yield []
