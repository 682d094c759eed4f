"""SQL of bank transfers and of sales at the box office."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from onceward import Tx

SET_REFERENCE = "update ticketing.checkouts set transfer_reference = $2 where id = $1"
BY_REFERENCE = """
select id from ticketing.checkouts where organization_id = $1 and transfer_reference = any($2) order by id limit 2
"""
ADD = """
insert into ticketing.transfers (line, amount_cents, currency, memo) values ($1, $2, $3, $4)
on conflict (organization_id, line) do nothing returning *
"""
BY_LINE = "select * from ticketing.transfers where organization_id = $1 and line = $2 for update"
LOCK = "select * from ticketing.transfers where id = $1 for update"
SETTLE = "update ticketing.transfers set outcome = $2, checkout_id = $3 where id = $1 returning *"
LISTED = """
select * from ticketing.transfers
 where organization_id = $1 and ($2::text is null or outcome = $2) order by created_at desc, id desc limit $3
"""


async def set_reference(tx: Tx, checkout_id: UUID, reference: str) -> None:
    await tx.execute(SET_REFERENCE, checkout_id, reference)


async def by_reference(tx: Tx, references: Sequence[str]) -> UUID | None:
    """Return the order that one of these references names; None if there is none, or more than one."""
    rows = await tx.fetch(BY_REFERENCE, tx.organization, list(references))
    return rows[0]["id"] if len(rows) == 1 else None


async def add(tx: Tx, line: str, amount_cents: int, currency: str, memo: str) -> Any:
    """Record a line of a bank statement; None if it is known."""
    return await tx.fetchrow(ADD, line, amount_cents, currency, memo)


async def by_line(tx: Tx, line: str) -> Any:
    return await tx.fetchrow(BY_LINE, tx.organization, line)


async def lock(tx: Tx, transfer_id: UUID) -> Any:
    return await tx.fetchrow(LOCK, transfer_id)


async def settle(tx: Tx, transfer_id: UUID, outcome: str, checkout_id: UUID | None) -> Any:
    return await tx.fetchrow(SETTLE, transfer_id, outcome, checkout_id)


async def listed(tx: Tx, outcome: str | None, limit: int) -> list[Any]:
    return await tx.fetch(LISTED, tx.organization, outcome, limit)
