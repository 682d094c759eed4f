"""What an organization and its users have spent this month, their caps, and the models that an organization chose."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from onceward import Tx
from onceward.live import Query
from onceward_apps.coursegen.models import Plan

Reader = Tx | Query

OWN = "select * from coursegen.organization_settings"
SET_OWN = """
insert into coursegen.organization_settings as s (organization_id, models, prices, monthly_cap_micros, user_cap_micros)
values (onceward.organization(), $1, $2, $3, $4)
on conflict (organization_id) do update
    set models = excluded.models, prices = excluded.prices, monthly_cap_micros = excluded.monthly_cap_micros,
        user_cap_micros = excluded.user_cap_micros, updated_at = onceward.now()
  where (s.models, s.prices, s.monthly_cap_micros, s.user_cap_micros)
        is distinct from (excluded.models, excluded.prices, excluded.monthly_cap_micros, excluded.user_cap_micros)
returning true
"""
SPENT = """
-- The sums of this month and the reservations of calls that are being made: at most as many as there are slots.
with month as (select date_trunc('month', onceward.now() at time zone 'utc')::date as month),
     open as (select coalesce(sum(reserved_micros), 0)::bigint as organization,
                     (coalesce(sum(reserved_micros) filter (where user_id = $1), 0))::bigint as own
                from coursegen.llm_calls where organization_id = onceward.organization() and state = 'started')
select (open.organization + coalesce((select sum(cost_micros) from coursegen.tier_costs t join month using (month)
         where t.organization_id = onceward.organization()), 0))::bigint as organization,
       (open.own + coalesce((select cost_micros from coursegen.user_costs u join month using (month)
         where u.organization_id = onceward.organization() and u.user_id = $1), 0))::bigint as own
  from open
"""
TYPICAL = """
-- The tokens of the last answers of one step.
select count(*)::int as calls, avg(prompt_tokens)::float8 as prompt_tokens, avg(completion_tokens)::float8 as
       completion_tokens
  from (select prompt_tokens, completion_tokens from coursegen.llm_calls
         where organization_id = onceward.organization() and step = $1 and state = 'done' and not estimated
         order by id desc limit 50) last
"""


async def own_settings(reader: Reader) -> Any:
    """Return the settings of the organization, or None if it has none of its own."""
    return await reader.fetchrow(OWN)


async def set_own(
    tx: Tx, *, models: str, prices: str, monthly_cap_micros: int | None, user_cap_micros: int | None
) -> bool:
    """Store what the organization has of its own. False: it has that already."""
    return bool(await tx.fetchval(SET_OWN, models, prices, monthly_cap_micros, user_cap_micros))


async def lock(tx: Tx) -> None:
    """Let one call of the organization at a time read what is left of its caps and reserve its part."""
    await tx.execute("select pg_advisory_xact_lock(hashtextextended('coursegen:caps:' || onceward.organization(), 0))")


async def left(reader: Reader, plan: Plan, user_id: UUID) -> int | None:
    """Return what the caps of this month leave for the user. None: there is no cap."""
    if not plan.has_caps:
        return None
    spent: Any = await reader.fetchrow(SPENT, user_id)
    rest: list[int] = []
    if plan.organization_cap_micros is not None:
        rest.append(plan.organization_cap_micros - spent["organization"])
    if plan.user_cap_micros is not None:
        rest.append(plan.user_cap_micros - spent["own"])
    return max(0, min(rest))


async def typical(reader: Reader, step: int) -> Any:
    return await reader.fetchrow(TYPICAL, step)
