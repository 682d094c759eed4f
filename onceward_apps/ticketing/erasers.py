"""What ticketing knows about a person: names and addresses on orders and tickets. Amounts and codes stay, nobody's."""

from __future__ import annotations

from onceward.db import Transaction
from onceward.trust.erase import Eraser, Person

ORDERS = """
update ticketing.checkouts set email = 'erased@invalid', name = '', user_id = null
 where lower(email) = lower($1) or user_id = $1
"""
TICKETS = """
update ticketing.tickets set holder_email = null, holder_name = '', user_id = null
 where lower(holder_email) = lower($1) or user_id = $1
"""


async def _count(tx: Transaction, query: str, person: Person) -> int:
    if await tx.fetchval("select to_regclass('ticketing.tickets') is null"):
        return 0
    return int((await tx.execute(query, person.ref)).rpartition(" ")[2])


async def erase_orders(tx: Transaction, person: Person) -> int:
    return await _count(tx, ORDERS, person)


async def erase_tickets(tx: Transaction, person: Person) -> int:
    return await _count(tx, TICKETS, person)


ERASERS: tuple[Eraser, ...] = (Eraser("ticket orders", erase_orders), Eraser("tickets", erase_tickets))
