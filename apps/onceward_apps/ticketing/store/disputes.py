"""SQL of disputes: money that a bank or PayPal takes back, and the tickets that are frozen until the decision."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from onceward import Tx

FIND = "select * from ticketing.disputes where payment_id = $1 and provider_dispute_id = $2"
NEWEST = (
    "select * from ticketing.disputes where payment_id = $1 and status <> 'won' order by opened_at desc, id limit 1"
)
ADD = """
insert into ticketing.disputes
    (payment_id, checkout_id, provider_dispute_id, amount_cents, currency, reason, provider_status)
values ($1, $2, $3, $4, $5, $6, $7) returning *
"""
SEEN = "update ticketing.disputes set provider_status = $2 where id = $1"
WITHHELD = "update ticketing.disputes set journal_id = $2 where id = $1"
CLOSE = """
update ticketing.disputes set status = $2, closing_journal_id = $3, closed_at = onceward.now() where id = $1
"""
IS_OPEN = "select exists (select from ticketing.disputes where checkout_id = $1 and status = 'open')"
POLICY = """
select e.dispute_policy from ticketing.checkouts c join ticketing.events e on e.id = c.event_id where c.id = $1
"""
EVENT_POLICY = "select dispute_policy from ticketing.events where id = $1 for update"
SET_POLICY = "update ticketing.events set dispute_policy = $2 where id = $1"
LISTED = """
select d.*, p.provider, p.provider_payment_id from ticketing.disputes d join ticketing.payments p on p.id = d.payment_id
 order by d.opened_at desc, d.id limit $1
"""
FREEZE = """
update ticketing.tickets set frozen_at = onceward.now(), updated_at = onceward.now()
 where checkout_id = $1 and status <> 'void' and frozen_at is null returning id
"""
RELEASE = """
update ticketing.tickets set frozen_at = null, updated_at = onceward.now()
 where checkout_id = $1 and frozen_at is not null returning id
"""


async def find(tx: Tx, payment_id: UUID, reference: str) -> Any:
    return await tx.fetchrow(FIND, payment_id, reference)


async def newest(tx: Tx, payment_id: UUID) -> Any:
    """Return the newest dispute of a payment, without disputes that were won."""
    return await tx.fetchrow(NEWEST, payment_id)


async def add(tx: Tx, *values: Any) -> Any:
    return await tx.fetchrow(ADD, *values)


async def seen(tx: Tx, dispute_id: UUID, provider_status: str) -> None:
    await tx.execute(SEEN, dispute_id, provider_status)


async def withheld(tx: Tx, dispute_id: UUID, journal_id: int) -> None:
    await tx.execute(WITHHELD, dispute_id, journal_id)


async def close(tx: Tx, dispute_id: UUID, status: str, journal_id: int | None) -> None:
    await tx.execute(CLOSE, dispute_id, status, journal_id)


async def is_open(tx: Tx, checkout_id: UUID) -> bool:
    return await tx.fetchval(IS_OPEN, checkout_id)


async def policy(tx: Tx, checkout_id: UUID) -> str:
    """Return the dispute policy of the event of an order."""
    return await tx.fetchval(POLICY, checkout_id)


async def set_policy(tx: Tx, event_id: UUID, policy: str) -> bool | None:
    """Return whether the policy changed; None if the event does not exist."""
    before = await tx.fetchval(EVENT_POLICY, event_id)
    if before is None or before == policy:
        return None if before is None else False
    await tx.execute(SET_POLICY, event_id, policy)
    return True


async def listed(tx: Tx, limit: int) -> list[Any]:
    return await tx.fetch(LISTED, limit)


async def freeze(tx: Tx, checkout_id: UUID) -> int:
    return len(await tx.fetch(FREEZE, checkout_id))


async def release(tx: Tx, checkout_id: UUID) -> int:
    return len(await tx.fetch(RELEASE, checkout_id))
