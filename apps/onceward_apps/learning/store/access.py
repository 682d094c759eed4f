"""SQL for access extensions."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from onceward import Tx

ADD_EXTENSION = """
insert into learning.access_extensions (enrollment_id, extends_until, payment_id, amount_paid, currency)
values ($1, $2, $3, $4, $5) returning *
"""
# The one that reaches furthest: two that were bought one after the other add up already.
TO_APPLY = """
select * from learning.access_extensions where enrollment_id = $1 and status = 'ACTIVE'
 order by extends_until desc limit 1
"""
REACHES = """
select max(extends_until) from learning.access_extensions where enrollment_id = $1 and status = 'ACTIVE'
"""
APPLIED = """
update learning.access_extensions set status = 'APPLIED', applied_at = onceward.now()
 where enrollment_id = $1 and status = 'ACTIVE' and extends_until <= $2
"""
REVOKE = """
update learning.access_extensions set status = 'REVOKED' where payment_id = $1 and status = 'ACTIVE' returning id
"""
REVOKE_ALL = "update learning.access_extensions set status = 'REVOKED' where enrollment_id = $1 and status = 'ACTIVE'"


async def add_extension(
    tx: Tx,
    enrollment_id: UUID,
    extends_until: datetime,
    *,
    payment_id: UUID,
    amount_paid: int,
    currency: str,
) -> Any:
    return await tx.fetchrow(ADD_EXTENSION, enrollment_id, extends_until, payment_id, amount_paid, currency)


async def extension_to_apply(tx: Tx, enrollment_id: UUID) -> Any:
    return await tx.fetchrow(TO_APPLY, enrollment_id)


async def extensions_reach(tx: Tx, enrollment_id: UUID) -> datetime | None:
    return await tx.fetchval(REACHES, enrollment_id)


async def extensions_applied(tx: Tx, enrollment_id: UUID, until: datetime) -> None:
    await tx.execute(APPLIED, enrollment_id, until)


async def revoke_extension(tx: Tx, payment_id: UUID) -> bool:
    """Revoke an extension that was not applied yet. False: it was applied, or does not exist."""
    return await tx.fetchval(REVOKE, payment_id) is not None


async def revoke_extensions(tx: Tx, enrollment_id: UUID) -> None:
    await tx.execute(REVOKE_ALL, enrollment_id)
