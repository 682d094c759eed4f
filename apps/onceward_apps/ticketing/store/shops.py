"""SQL of how an organizer sells: sites that show the shop, the page of the organizer, bank transfers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from onceward import Tx
from onceward.db import Transaction

OF = """
select o.organization_id, o.slug as organizer_slug, o.name as organizer, coalesce(s.sites, '{}') as sites,
       coalesce(s.about, '') as about,
       coalesce(s.bank_account, '') as bank_account, coalesce(s.transfer_days, 7) as transfer_days
  from onceward.organizations o left join ticketing.shops s on s.organization_id = o.organization_id
 where o.organization_id = $1
"""
SET = """
insert into ticketing.shops as s (sites, about, bank_account, transfer_days) values ($1, $2, $3, $4)
on conflict (organization_id) do update
   set sites = excluded.sites, about = excluded.about, bank_account = excluded.bank_account,
       transfer_days = excluded.transfer_days
 where (s.sites, s.about, s.bank_account, s.transfer_days)
       <> (excluded.sites, excluded.about, excluded.bank_account, excluded.transfer_days)
returning true
"""
# Only those that sell, or have said how: the names of other tenants are not public.
BY_SLUG = """
select organization_id from onceward.organizations o
 where slug = $1
   and (exists (select from ticketing.events e where e.organization_id = o.organization_id and e.status <> 'draft')
                      or exists (select from ticketing.shops s where s.organization_id = o.organization_id))
"""


async def of(tx: Tx) -> Any:
    """Return how the organization sells; without a choice of its own, the usual."""
    return await tx.fetchrow(OF, tx.organization)


async def set(tx: Tx, sites: Sequence[str], about: str, bank_account: str, transfer_days: int) -> bool:
    """Set how the organization sells. Return whether that is a change."""
    return bool(await tx.fetchval(SET, list(sites), about, bank_account, transfer_days))


async def by_slug(tx: Transaction, slug: str) -> UUID | None:
    """Return the organization with this name in addresses. `tx` must run as the engine."""
    return await tx.fetchval(BY_SLUG, slug)
