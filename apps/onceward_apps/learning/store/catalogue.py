"""SQL of the pages for visitors."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from onceward import Tx
from onceward.db import Database

# Run as the engine: a visitor belongs to no organization. Only names are read.
SCHOOLS = """
select o.slug, o.name from onceward.organizations o
 where exists (select from learning.cohorts c where c.organization_id = o.organization_id
                  and c.status in ('OPEN', 'CONFIRMED', 'IN_PROGRESS'))
 order by o.name limit 100
"""


async def schools(db: Database) -> list[Any]:
    return await db.fetch(SCHOOLS)


async def school(db: Database, slug: str) -> Any:
    return await db.fetchrow("select organization_id, slug, name from onceward.organizations where slug = $1", slug)


async def sessions(tx: Tx, cohort_id: UUID) -> list[Any]:
    return await tx.fetch(
        "select title, starts_at, ends_at from learning.sessions where cohort_id = $1 and cancelled_at is null"
        " order by starts_at",
        cohort_id,
    )


async def enrollment_of(tx: Tx, user_id: UUID, cohort_id: UUID) -> Any:
    return await tx.fetchrow(
        "select id from learning.enrollments where user_id = $1 and cohort_id = $2 and status <> 'REFUNDED'",
        user_id,
        cohort_id,
    )
