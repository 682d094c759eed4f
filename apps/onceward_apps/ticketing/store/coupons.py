"""Coupons: lock one, then count its uses. Two statements: a statement sees only what was committed before it began."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from onceward import Tx

LOCK_BY_CODE = """
select * from ticketing.coupons
 where organization_id = $1 and code = $2 and (event_id is null or event_id = $3) for no key update
"""
LOCK_BY_ID = "select * from ticketing.coupons where id = $1 for no key update"
# A checkout uses the coupon while it can still be paid in time, and permanently once it is paid.
USES = """
select count(*) from ticketing.checkouts
 where coupon_id = $1 and id is distinct from $2
   and (status in ('completed', 'refunded') or (status in ('started', 'failed') and expires_at > onceward.clock()))
"""


async def lock_by_code(tx: Tx, code: str, event_id: UUID) -> Any:
    """Lock the event's coupon with this code; None if it does not exist."""
    return await tx.fetchrow(LOCK_BY_CODE, tx.organization, code, event_id)


async def lock(tx: Tx, coupon_id: UUID) -> Any:
    return await tx.fetchrow(LOCK_BY_ID, coupon_id)


async def uses(tx: Tx, coupon_id: UUID, *, besides: UUID | None = None) -> int:
    """Count the uses of a coupon that the caller has locked, without those of the checkout `besides`."""
    return int(await tx.fetchval(USES, coupon_id, besides))
