"""SQL of the domains of schools."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from onceward import Query, Tx

FIND = """
select o.organization_id, o.slug, o.name, s.domain
  from onceward.organizations o left join learning.schools s on s.organization_id = o.organization_id
 where o.organization_id = onceward.organization()
"""
SET_DOMAIN = """
insert into learning.schools (domain) values (lower($1))
on conflict (organization_id) do update set domain = excluded.domain, updated_at = onceward.now()
"""


async def find(tx: Tx | Query) -> Any:
    return await tx.fetchrow(FIND)


async def set_domain(tx: Tx, domain: str | None) -> None:
    if domain is None:
        await tx.execute("delete from learning.schools where organization_id = onceward.organization()")
    else:
        await tx.execute(SET_DOMAIN, domain)


async def owner(tx: Tx, domain: str) -> UUID | None:
    return await tx.fetchval("select learning.organization_of('domain', $1)", domain)
