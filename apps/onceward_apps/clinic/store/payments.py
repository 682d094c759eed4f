"""Payments and refunds. A payment is one row per payment intent, whatever the order of its webhooks."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from onceward import Tx

Row = Any

# A success is final: a late failure of an earlier try does not undo it.
SUCCEEDED = """
insert into clinic.payments as p (provider_id, appointment_id, amount, currency, status)
values ($1, $2, $3, $4, 'succeeded')
on conflict (organization_id, provider, provider_id) do update
    set status = 'succeeded', amount = excluded.amount, currency = excluded.currency, failure = null,
        appointment_id = coalesce(excluded.appointment_id, p.appointment_id)
  where p.status <> 'succeeded'
returning *
"""
FAILED = """
insert into clinic.payments as p (provider_id, appointment_id, amount, currency, status, failure)
values ($1, $2, $3, $4, 'failed', $5)
on conflict (organization_id, provider, provider_id) do update
    set status = 'failed', failure = excluded.failure, amount = excluded.amount, currency = excluded.currency
  where p.status in ('expected', 'failed')
returning *
"""
# Stripe reports the sum of all refunds, so the larger value is the later one. A report from before a bank returned a refund
# is ignored: its sum contains money that the patient does not have.
REFUNDED = """
insert into clinic.payments as p (provider_id, appointment_id, status, refunded)
values ($1, $2, 'expected', $3)
on conflict (organization_id, provider, provider_id) do update
    set refunded = case when p.refund_returned_at >= $4 then p.refunded else greatest(p.refunded, excluded.refunded) end
returning *
"""
OF_APPOINTMENT = """
select p.*, exists (select from clinic.refunds r where r.payment_id = p.id and r.status = 'pending') as refund_pending
  from clinic.payments p where p.appointment_id = $1 order by p.received_at, p.id
"""
ADD_REFUND = """
insert into clinic.refunds (payment_id, amount, refunded_before, currency, key, reason, requested_by)
select p.id, $2, greatest(p.refunded, coalesce((select sum(r.amount) from clinic.refunds r
                                                 where r.payment_id = p.id and r.status <> 'failed'), 0)), $3, $4, $5, $6
  from clinic.payments p where p.id = $1
on conflict (organization_id, key) do nothing
returning *
"""
# What was refunded, or will be: refunds of ours that Stripe has not reported yet count too.
LEFT = """
select p.amount - greatest(p.refunded, coalesce((select sum(r.amount) from clinic.refunds r
                                                  where r.payment_id = p.id and r.status <> 'failed'), 0))
  from clinic.payments p where p.id = $1 for update
"""
REFUND = """
select r.*, p.provider_id as payment_intent, p.appointment_id, onceward.now() - r.created_at as age
  from clinic.refunds r join clinic.payments p on p.id = r.payment_id where r.id = $1
"""
SETTLE_REFUND = """
update clinic.refunds set status = $2, provider_id = coalesce($3, provider_id), failure = $4, done_at = onceward.now()
 where id = $1 and status = 'pending' returning *
"""
# Its webhook may come before the answer to our request is stored: then the id in its metadata names it.
REFUND_REPORTED = """
select * from clinic.refunds where provider_id = $1 or (id = $2 and provider_id is null) limit 1
"""
# If Stripe's sum or our own contains the refund, the sum is lowered: the patient can be refunded again.
RETURN_REFUND = """
with before as (
    select r.id, r.payment_id, r.amount, r.status = 'succeeded' or p.refunded >= r.refunded_before + r.amount as is_counted
      from clinic.refunds r join clinic.payments p on p.id = r.payment_id
     where r.id = $1 and r.status <> 'failed' for update
), lowered as (
    update clinic.payments p
       set refunded = greatest(p.refunded - before.amount, 0), refund_returned_at = coalesce($3, p.refund_returned_at)
      from before where p.id = before.payment_id and before.is_counted
)
update clinic.refunds r set status = 'failed', failure = $2, done_at = onceward.now()
  from before where r.id = before.id returning r.*
"""


async def succeeded(tx: Tx, intent: str, appointment_id: UUID | None, amount: int, currency: str) -> Row | None:
    """Record a payment. Return None if it was recorded before."""
    return await tx.fetchrow(SUCCEEDED, intent, appointment_id, amount, currency)


async def failed(tx: Tx, intent: str, appointment_id: UUID, amount: int, currency: str, why: str | None) -> Row | None:
    """Record a failed try. Return None if the payment has succeeded."""
    return await tx.fetchrow(FAILED, intent, appointment_id, amount, currency, why)


async def refunded(tx: Tx, intent: str, appointment_id: UUID | None, amount: int, at: datetime) -> Row:
    return await tx.fetchrow(REFUNDED, intent, appointment_id, amount, at)


async def set_problem(tx: Tx, id: UUID, problem: str | None) -> None:
    await tx.execute("update clinic.payments set problem = $2 where id = $1", id, problem)


async def set_dispute(tx: Tx, id: UUID, dispute: str) -> bool:
    """Store the state of a dispute. Return False if nothing changed: a late report never reopens a decision."""
    changed = await tx.fetchval(
        "update clinic.payments set dispute = $2 where id = $1 and dispute is distinct from $2"
        " and (dispute is null or $2 <> 'open') returning id",
        id,
        dispute,
    )
    return changed is not None


async def by_intent(tx: Tx, intent: str) -> Row | None:
    return await tx.fetchrow("select * from clinic.payments where provider = 'stripe' and provider_id = $1", intent)


async def of_appointment(tx: Tx, appointment_id: UUID) -> list[Row]:
    return await tx.fetch(OF_APPOINTMENT, appointment_id)


async def set_status(tx: Tx, appointment_id: UUID, status: str) -> bool:
    """Store the payment status of an appointment. Return False if it was the same."""
    changed = await tx.fetchval(
        "update clinic.appointments set payment_status = $2 where id = $1 and payment_status <> $2 returning id",
        appointment_id,
        status,
    )
    return changed is not None


async def refundable(tx: Tx, payment_id: UUID) -> int:
    """Lock the payment and return what can still be refunded."""
    return int(await tx.fetchval(LEFT, payment_id) or 0)


async def add_refund(
    tx: Tx, payment_id: UUID, amount: int, currency: str, *, key: str, reason: str, by: str
) -> Row | None:
    """Record a refund. Return None if the key was used before."""
    return await tx.fetchrow(ADD_REFUND, payment_id, amount, currency, key, reason, by)


async def refund(tx: Tx, id: UUID) -> Row | None:
    return await tx.fetchrow(REFUND, id)


async def refund_by_key(tx: Tx, key: str) -> Row | None:
    return await tx.fetchrow("select * from clinic.refunds where key = $1", key)


async def was_refunded_for(tx: Tx, payment_id: UUID, amount: int, reason: str) -> bool:
    """Whether a refund of this amount and reason was requested, and has not failed."""
    return await tx.fetchval(
        "select exists (select from clinic.refunds where payment_id = $1 and amount = $2 and btrim(reason) = btrim($3)"
        " and status <> 'failed')",
        payment_id,
        amount,
        reason,
    )


async def refund_reported(tx: Tx, provider_id: str, id: UUID | None) -> Row | None:
    """Return the refund that Stripe reports, by Stripe's id, or by ours if Stripe's is not known yet."""
    return await tx.fetchrow(REFUND_REPORTED, provider_id, id)


async def name_refund(tx: Tx, id: UUID, provider_id: str) -> None:
    """Store Stripe's id of a refund that is not final yet."""
    await tx.execute("update clinic.refunds set provider_id = $2 where id = $1", id, provider_id)


async def settle_refund(
    tx: Tx, id: UUID, status: str, provider_id: str | None = None, failure: str | None = None
) -> Row | None:
    """Record the end of a refund. Return None if it had ended."""
    return await tx.fetchrow(SETTLE_REFUND, id, status, provider_id, failure)


async def return_refund(tx: Tx, id: UUID, failure: str, at: datetime | None) -> Row | None:
    """Record that the patient does not have the money of a refund, even if it had succeeded. None: this is known."""
    return await tx.fetchrow(RETURN_REFUND, id, failure, at)


async def count_own_refunds(tx: Tx, payment_id: UUID) -> None:
    """Let `refunded` be at least the sum of our finished refunds, in case the webhook about them is lost."""
    await tx.execute(
        "update clinic.payments p set refunded = greatest(p.refunded, coalesce((select sum(r.amount) from clinic.refunds r"
        " where r.payment_id = p.id and r.status = 'succeeded'), 0)) where p.id = $1",
        payment_id,
    )
