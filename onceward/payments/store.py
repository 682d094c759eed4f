"""The SQL of the machine. Every function takes the transaction in which it runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from onceward.db import Transaction
from onceward.money import Money

from .model import Dispute, Payment, Refund

Row = Any

_PAYMENT = """
select p.*, a.name as account_name, a.service, a.connected_account, a.organization_id as account_owner, onceward.now()
as now
  from onceward.payments p join onceward.payment_accounts a on a.id = p.account_id
"""
LOCK = _PAYMENT + " where p.id = $1 for update of p"
GET = _PAYMENT + " where p.id = $1"
PAYABLE = (
    _PAYMENT
    + """
 where p.organization_id = onceward.organization() and p.subject_type = $1 and p.subject_id = $2
   and p.status in ('created', 'open', 'processing') and p.superseded_at is null for update of p
"""
)
OF_SUBJECT = (
    _PAYMENT
    + """
 where p.organization_id = onceward.organization() and p.subject_type = $1 and p.subject_id = $2 order by p.created_at,
 p.id
"""
)
ACCOUNT = "select * from onceward.payment_account($1, $2, $3)"
FIND = "select * from onceward.find_payment($1, $2, $3, $4, $5)"
RECEIVE = "select * from onceward.receive_payment($1, $2, $3, $4)"
DECIDE = "select (d.payment).*, d.early, d.replaced from onceward.decide_payment($1, $2, $3, $4, $5, $6, $7) d"
NAME = """
insert into onceward.payment_names (account_id, name, payment_id, organization_id)
select $1, n, $3, $4 from unnest($2::text[]) n on conflict do nothing
"""
INSERT = """
insert into onceward.payments
    (account_id, subject_type, subject_id, amount, currency, title, lines, data, email, locale, success_url, cancel_url,
     expires_at, close_at, ask_at, plan_id, instalment, superseded_at, caused_by)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, onceward.now() + $13, onceward.now() + $13,
        onceward.now() + $13, $14, $15, case when $16 then onceward.now() end, $17)
returning id, expires_at
"""
REFUND = "select * from onceward.payment_refunds where id = $1"
LOCK_REFUND = "select *, onceward.now() as now from onceward.payment_refunds where id = $1 for update"
REFUNDS = "select * from onceward.payment_refunds where payment_id = $1 order by created_at, id for update"
DISPUTES = "select * from onceward.payment_disputes where payment_id = $1 order by created_at, id for update"


async def lock(tx: Transaction, payment_id: UUID) -> Row:
    """Lock a payment and return it, or None if the organization has no such payment."""
    return await tx.fetchrow(LOCK, payment_id)


async def get(tx: Transaction, payment_id: UUID) -> Row:
    return await tx.fetchrow(GET, payment_id)


async def account(tx: Transaction, name: str, *, service: str | None, source: str | None) -> Row:
    row = await tx.fetchrow(ACCOUNT, name, service, source)
    return None if row is None or row["id"] is None else row


async def change(tx: Transaction, table: str, id: UUID, **values: Any) -> Row:
    """Set columns of one row and return it. The names of table and columns come from the code, never from data."""
    names = list(values)
    assignments = ", ".join(f"{name} = ${n + 2}" for n, name in enumerate(names))
    return await tx.fetchrow(
        f"update onceward.{table} set {assignments} where id = $1 returning *", id, *(values[name] for name in names)
    )


def merged(row: Row, changed: Row) -> Row:
    """Return a row of `LOCK` or `GET` with the columns that a statement has changed."""
    return {**dict(row), **dict(changed)}


async def name_payment(tx: Transaction, row: Row, names: Sequence[str | None]) -> None:
    """Remember by which ids the service calls a payment."""
    given = [each for each in dict.fromkeys(names) if each]
    if given:
        await tx.execute(NAME, row["account_id"], given, row["id"], row["organization_id"])


def payment_of(row: Row) -> Payment:
    """Return a row of `LOCK`, `GET` or `OF_SUBJECT` as the app sees it."""
    return Payment(
        id=row["id"],
        organization=row["organization_id"],
        account=row["account_name"],
        service=row["service"],
        subject_type=row["subject_type"],
        subject_id=row["subject_id"],
        status=row["status"],
        amount=Money(row["amount"], row["currency"]),
        title=row["title"],
        decision=row["decision"],
        received=row["received"],
        refunded=row["refunded"],
        withheld=row["withheld"],
        is_superseded=row["superseded_at"] is not None,
        charge=row["charge"],
        plan_id=row["plan_id"],
        instalment=row["instalment"],
        data=row["data"],
        created_at=row["created_at"],
        paid_at=row["paid_at"],
        failure=row["failure"],
        reason=row["decided_reason"],
    )


def refund_of(row: Row, payment: Row) -> Refund:
    return Refund(
        id=row["id"],
        payment=payment_of(payment),
        status=row["status"],
        amount=Money(row["amount"], row["currency"]),
        reason=row["reason"],
        requested_by=row["requested_by"],
        lines=row["lines"],
        failure=row["failure"],
        reference=row["reference"],
        attempt=row["attempt"],
        was_done=row["was_done"],
        key=row["key"],
    )


def dispute_of(row: Row, payment: Row, before: Any) -> Dispute:
    return Dispute(
        id=row["id"],
        payment=payment_of(payment),
        status=row["status"],
        before=before,
        amount=Money(row["amount"], row["currency"]),
        taken=row["taken"],
        reason=row["reason"],
    )


def money(row: Row) -> Money:
    """Return the amount of a row with its currency."""
    return Money(row["amount"], row["currency"])
