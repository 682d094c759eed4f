"""SQL of discount codes."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from onceward import Tx

ADD = """
insert into learning.discount_codes (code, cohort_id, percent, amount, currency, most_uses, valid_until)
values ($1, $2, $3, $4, $5, $6, $7) on conflict (organization_id, code) do nothing returning *
"""
BY_CODE = """
select *, coalesce(valid_until <= onceward.now(), false) as is_over from learning.discount_codes
 where organization_id = onceward.organization() and code = $1
"""
ATTACH = "update learning.checkouts set discount_id = $2, discount_claim_id = $3 where id = $1"


async def add(
    tx: Tx,
    code: str,
    cohort_id: UUID | None,
    percent: int | None,
    amount: int | None,
    currency: str | None,
    most_uses: int | None,
    valid_until: datetime | None,
) -> Any:
    """Return the new code, or None if the organization has it already."""
    return await tx.fetchrow(ADD, code, cohort_id, percent, amount, currency, most_uses, valid_until)


async def by_code(tx: Tx, code: str) -> Any:
    return await tx.fetchrow(BY_CODE, code)


async def find(tx: Tx, discount_id: UUID) -> Any:
    return await tx.fetchrow("select * from learning.discount_codes where id = $1", discount_id)


async def lock(tx: Tx, discount_id: UUID) -> Any:
    return await tx.fetchrow("select * from learning.discount_codes where id = $1 for update", discount_id)


async def change(tx: Tx, discount_id: UUID, most_uses: int | None, valid_until: datetime | None) -> None:
    await tx.execute(
        "update learning.discount_codes set most_uses = $2, valid_until = $3 where id = $1",
        discount_id,
        most_uses,
        valid_until,
    )


async def attach(tx: Tx, checkout_id: UUID, discount_id: UUID | None, claim_id: int | None) -> None:
    await tx.execute(ATTACH, checkout_id, discount_id, claim_id)
