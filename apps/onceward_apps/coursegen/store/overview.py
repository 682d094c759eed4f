"""Numbers for operators: courses by state, slots by tier, the adaptive limit, costs by tier and month."""

from __future__ import annotations

from typing import Any, Protocol
from uuid import UUID


class Reader(Protocol):
    """A transaction, a live query or a page of the dashboard."""

    async def fetch(self, query: str, *args: Any) -> list[Any]: ...

    async def fetchrow(self, query: str, *args: Any) -> Any: ...


OWN = "($1::uuid is null or organization_id = $1)"
RUNNING = f"""
select coalesce(tier, '?') as tier, (count(*) filter (where admitted_at is not null))::int as slots,
       (count(*) filter (where admitted_at is null))::int as waiting,
       count(*) filter (where status = 'generating')::int as generating,
       min(queued_at) as oldest
  from coursegen.courses where status in ('queued', 'generating') and {OWN} group by 1
"""
STATES = f"select status, count(*)::int as courses from coursegen.courses where {OWN} group by 1"
COSTS = f"""
select tier, sum(cost_micros)::bigint as cost_micros, sum(calls)::bigint as calls from coursegen.tier_costs
 where month = date_trunc('month', onceward.now() at time zone 'utc')::date and {OWN} group by 1
"""
RECENT = f"""
select c.id, c.title, c.status, c.tier, c.error_code, c.job_id, c.updated_at,
       (c.generation_progress ->> 'percentage')::int as percentage,
       coalesce((select sum(coalesce(l.cost_micros, l.reserved_micros)) from coursegen.llm_calls l
                  where l.course_id = c.id and l.attempt = c.attempt), 0)::bigint as cost_micros
  from coursegen.courses c where c.status <> 'draft' and {OWN.replace("organization_id", "c.organization_id")}
 order by c.updated_at desc limit 30
"""
FAILURES = f"""
select error_code, count(*)::int as courses from coursegen.courses
 where status = 'failed' and finished_at > onceward.now() - interval '24 hours' and {OWN} group by 1 order by 2 desc
"""


async def running(reader: Reader, organization: UUID | None) -> list[Any]:
    return await reader.fetch(RUNNING, organization)


async def states(reader: Reader, organization: UUID | None) -> dict[str, int]:
    return {row["status"]: row["courses"] for row in await reader.fetch(STATES, organization)}


async def costs(reader: Reader, organization: UUID | None) -> list[Any]:
    return await reader.fetch(COSTS, organization)


async def recent(reader: Reader, organization: UUID | None) -> list[Any]:
    return await reader.fetch(RECENT, organization)


async def failures(reader: Reader, organization: UUID | None) -> list[Any]:
    return await reader.fetch(FAILURES, organization)


async def global_limit(reader: Reader) -> Any:
    """Return the limit that all organizations share: its value, the slots in use, and why it changed last."""
    return await reader.fetchrow("select * from onceward.limit_state('global')")


async def limit_changes(reader: Reader) -> list[Any]:
    """Return the last changes of that limit with their reasons, the newest first."""
    return await reader.fetch("select * from onceward.limit_history('global', 10)")
