"""SQL of how schools look to students."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from onceward import Query, Tx

FIND = """
select o.organization_id, o.slug, coalesce(s.name, o.name) as name, s.colour, s.website, s.support_email, s.domain
  from onceward.organizations o left join learning.schools s on s.organization_id = o.organization_id
 where o.organization_id = onceward.organization()
"""
SET = """
insert into learning.schools (name, colour, website, support_email) values ($1, $2, $3, $4)
on conflict (organization_id) do update
   set name = excluded.name, colour = excluded.colour, website = excluded.website,
       support_email = excluded.support_email, updated_at = onceward.now()
"""
DOMAIN = """
insert into learning.schools (name, colour, domain)
select o.name, $2, lower($1) from onceward.organizations o where o.organization_id = onceward.organization()
on conflict (organization_id) do update set domain = excluded.domain, updated_at = onceward.now()
"""


async def find(tx: Tx | Query) -> Any:
    return await tx.fetchrow(FIND)


async def set_look(tx: Tx, name: str, colour: str, website: str | None, support_email: str | None) -> None:
    await tx.execute(SET, name, colour, website, support_email)


async def set_domain(tx: Tx, domain: str | None, colour: str) -> None:
    await tx.execute(DOMAIN, domain, colour)


async def owner(tx: Tx, domain: str) -> UUID | None:
    return await tx.fetchval("select learning.organization_of('domain', $1)", domain)
