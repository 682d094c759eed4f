"""SQL for payments that take days, such as a bank debit: the checkout waits until the payment succeeds or fails."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from onceward import Tx

# Also if our schedule has ended the checkout: the payment service completes only a page that was used in time.
BEGIN = """
update learning.checkouts set status = 'waiting', ended_at = null where id = $1 and status in ('started', 'expired')
"""
# No debit takes three weeks. After that its webhook is lost, and nobody is kept from paying.
IS_PENDING = "k.status = 'waiting' and k.created_at > onceward.now() - interval '21 days'"
FIND = f"""
select k.id from learning.checkouts k
 where k.user_id = $1 and k.cohort_id = $2 and (k.kind = 'extension') = $3 and {IS_PENDING} limit 1
"""
OF_USER = f"""
select k.cohort_id, k.kind, c.name as cohort_name
  from learning.checkouts k join learning.cohorts c on c.id = k.cohort_id
 where k.user_id = $1 and {IS_PENDING} order by k.created_at
"""


async def begin(tx: Tx, checkout_id: UUID) -> None:
    """Record that the person has paid with a method that takes days."""
    await tx.execute(BEGIN, checkout_id)


async def is_pending(tx: Tx, user_id: UUID, cohort_id: UUID, *, extension: bool) -> bool:
    """Return whether a payment of the person for the cohort, or for more access to it, is being processed."""
    return await tx.fetchval(FIND, user_id, cohort_id, extension) is not None


async def of_user(tx: Tx, user_id: UUID) -> list[Any]:
    return await tx.fetch(OF_USER, user_id)
