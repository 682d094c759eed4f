"""SQL of invoice numbers."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from onceward import Tx

OPEN_COUNTER = "insert into ticketing.invoice_counters default values on conflict (organization_id) do nothing"
LOCK_COUNTER = "select last_number from ticketing.invoice_counters where organization_id = $1 for update"
# Reads after the counter was locked, so that it sees the numbers of every earlier batch.
ADD_INVOICES = """
insert into ticketing.invoices (number, checkout_id)
select $1::bigint + row_number() over (order by c.completed_at, c.id), c.id
  from ticketing.checkouts c
 where c.id = any($2::uuid[]) and c.status in ('completed', 'refunded')
   and not exists (select from ticketing.invoices i where i.checkout_id = c.id)
returning number
"""
ADVANCE_COUNTER = "update ticketing.invoice_counters set last_number = last_number + $2 where organization_id = $1"


async def add(tx: Tx, checkout_ids: Sequence[UUID]) -> int:
    """Give each paid checkout the next number of its organization, in the order of the sales. Return how many got one.

    The counter stays locked until the commit: two batches of one organization follow each other, and a batch that
    rolls back uses up no number.
    """
    await tx.execute(OPEN_COUNTER)
    last_number = await tx.fetchval(LOCK_COUNTER, tx.organization)
    added = len(await tx.fetch(ADD_INVOICES, last_number, list(checkout_ids)))
    if added:
        await tx.execute(ADVANCE_COUNTER, tx.organization, added)
    return added
