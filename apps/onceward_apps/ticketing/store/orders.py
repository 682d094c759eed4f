"""SQL of organizers about one order."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from onceward import Tx

# A ticket that was transferred belongs to its new holder, and keeps their address.
CORRECT = """
with order_of as (
    update ticketing.checkouts set email = $2, name = $3, customer = case when customer is not null then lower($2) end,
           link_version = link_version + $4::boolean::int
     where id = $1 returning id
)
update ticketing.tickets t set holder_email = $2, holder_name = $3, updated_at = onceward.now()
  from order_of where t.checkout_id = order_of.id and t.transferred_from is null
"""
CODES = "select id, ticket_code from ticketing.tickets where checkout_id = $1"


async def correct(tx: Tx, checkout_id: UUID, email: str, name: str, are_links_revoked: bool) -> None:
    """Set the address and name of the buyer on the order and on the tickets that the buyer has."""
    await tx.execute(CORRECT, checkout_id, email, name, are_links_revoked)


async def codes(tx: Tx, checkout_id: UUID) -> list[Any]:
    """Return the ids and codes of all tickets of an order."""
    return await tx.fetch(CODES, checkout_id)
