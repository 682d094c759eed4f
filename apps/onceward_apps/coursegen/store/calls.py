"""The log of calls to the language model, and the costs by month and tier."""

from __future__ import annotations

from datetime import date
from typing import Any
from uuid import UUID

from onceward import Tx
from onceward.live import Query

Reader = Tx | Query

START = """
insert into coursegen.llm_calls
    (organization_id, course_id, user_id, attempt, job_id, step, item, request_id, tier, model, reserved_micros)
values (onceward.organization(), $1, $10, $2, $3, $4, $5, $6, $7, $8, $9)
"""
FINISH = """
-- End a call once, and add its cost to the month of its tier and of its user in the same statement.
with ended as (
    update coursegen.llm_calls
       set state = $2, prompt_tokens = $3, completion_tokens = $4, cost_micros = $5, estimated = $6, error = $7,
           finished_at = onceward.now()
     where request_id = $1 and state = 'started'
    returning organization_id, user_id, tier, cost_micros
), of_user as (
    insert into coursegen.user_costs as u (organization_id, month, user_id, cost_micros)
    select e.organization_id, date_trunc('month', onceward.now() at time zone 'utc')::date, e.user_id, e.cost_micros
           from ended e
    on conflict (organization_id, user_id, month) do update set cost_micros = u.cost_micros + excluded.cost_micros
)
insert into coursegen.tier_costs as t (organization_id, month, tier, cost_micros, calls)
select e.organization_id, date_trunc('month', onceward.now() at time zone 'utc')::date, e.tier, e.cost_micros, 1
  from ended e
on conflict (organization_id, month, tier) do update
    set cost_micros = t.cost_micros + excluded.cost_micros, calls = t.calls + 1
"""
OPEN = """
select request_id, reserved_micros from coursegen.llm_calls
 where course_id = $1 and ($2::bigint is null or job_id = $2) and state = 'started' order by id
"""
SPENT = """
select coalesce(sum(coalesce(cost_micros, reserved_micros)), 0)::bigint from coursegen.llm_calls
 where course_id = $1 and attempt = $2
"""
PAID = """
select coalesce(sum(cost_micros), 0)::bigint from coursegen.llm_calls where course_id = $1 and attempt = $2
"""
BY_STEP = """
select step, count(*)::int as calls, coalesce(sum(prompt_tokens), 0)::bigint as prompt_tokens,
       coalesce(sum(completion_tokens), 0)::bigint as completion_tokens,
       coalesce(sum(cost_micros), 0)::bigint as cost_micros,
       count(*) filter (where state in ('failed', 'stopped', 'lost'))::int as not_done
  from coursegen.llm_calls where course_id = $1 and attempt = $2 group by step order by step
"""


OF_DAY = """
-- What was booked on a day, by organization and model, if some of it is an estimate that was not compared yet.
select organization_id, model,
       coalesce(sum(prompt_tokens) filter (where not estimated), 0)::bigint as prompt_tokens,
       coalesce(sum(completion_tokens) filter (where not estimated), 0)::bigint as completion_tokens,
       coalesce(sum(cost_micros) filter (where estimated and reconciled_at is null), 0)::bigint as estimated_micros,
       count(*) filter (where estimated and reconciled_at is null)::int as estimated_calls
  from coursegen.llm_calls
 where finished_at >= $1::date::timestamp at time zone 'utc' and finished_at < ($1::date + 1)::timestamp at time zone
        'utc'
   and exists (select from coursegen.llm_calls e where e.estimated and e.reconciled_at is null
                  and e.finished_at >= $1::date::timestamp at time zone 'utc'
                  and e.finished_at < ($1::date + 1)::timestamp at time zone 'utc')
 group by 1, 2
"""
SCALE = """
-- Correct the estimates of one model on one day, and the sums by tier and user with them.
with old as (
    select id, cost_micros from coursegen.llm_calls
     where organization_id = onceward.organization() and model = $2 and estimated and reconciled_at is null
       and finished_at >= $1::date::timestamp at time zone 'utc' and finished_at < ($1::date + 1)::timestamp at time
              zone 'utc'
       for update
), corrected as (
    update coursegen.llm_calls c
       set cost_micros = round(c.cost_micros * $3::float8)::bigint, reconciled_at = onceward.now()
      from old where c.id = old.id
    returning c.organization_id, c.user_id, c.tier, date_trunc('month', c.finished_at at time zone 'utc')::date as
           month,
              old.cost_micros - c.cost_micros as less
), of_tier as (
    update coursegen.tier_costs t set cost_micros = t.cost_micros - x.less
      from (select organization_id, tier, month, sum(less) as less from corrected group by 1, 2, 3) x
     where t.organization_id = x.organization_id and t.tier = x.tier and t.month = x.month
), of_user as (
    update coursegen.user_costs u set cost_micros = u.cost_micros - x.less
      from (select organization_id, user_id, month, sum(less) as less from corrected group by 1, 2, 3) x
     where u.organization_id = x.organization_id and u.user_id = x.user_id and u.month = x.month
)
select count(*)::int from corrected
"""


async def scale_estimates(tx: Tx, day: date, model: str, share: float) -> int:
    """Book only this share of the estimates of a model on a day. Return the number of calls."""
    return await tx.fetchval(SCALE, day, model, share)


async def start(
    tx: Tx,
    *,
    course_id: UUID,
    user_id: UUID,
    attempt: int,
    job_id: int,
    step: int,
    item: str,
    request_id: UUID,
    tier: str,
    model: str,
    reserved_micros: int,
) -> None:
    """Record a call before it is made."""
    await tx.execute(START, course_id, attempt, job_id, step, item, request_id, tier, model, reserved_micros, user_id)


async def finish(
    tx: Tx,
    request_id: UUID,
    state: str,
    *,
    prompt_tokens: int | None,
    completion_tokens: int | None,
    cost_micros: int,
    estimated: bool,
    error: str | None = None,
) -> None:
    """Record how a call ended. Only the first record counts."""
    await tx.execute(FINISH, request_id, state, prompt_tokens, completion_tokens, cost_micros, estimated, error)


async def mark_lost(tx: Tx, course_id: UUID, *, job_id: int | None = None) -> int:
    """End the calls of a process that died, with the most that each may have cost. Return their number.

    With `job_id`, only those of one job.
    """
    rows = await tx.fetch(OPEN, course_id, job_id)
    for row in rows:
        await finish(
            tx,
            row["request_id"],
            "lost",
            prompt_tokens=None,
            completion_tokens=None,
            cost_micros=row["reserved_micros"],
            estimated=True,
        )
    return len(rows)


async def spent_micros(reader: Reader, course_id: UUID, attempt: int) -> int:
    """Return what an attempt has cost so far. A call that is being made counts with its largest possible cost."""
    return await reader.fetchval(SPENT, course_id, attempt)


async def paid_micros(reader: Reader, course_id: UUID, attempt: int) -> int:
    """Return what the ended calls of an attempt have cost."""
    return await reader.fetchval(PAID, course_id, attempt)


async def by_step(reader: Reader, course_id: UUID, attempt: int) -> list[Any]:
    return await reader.fetch(BY_STEP, course_id, attempt)


async def listed(reader: Reader, course_id: UUID) -> list[Any]:
    """Return every call of a course, oldest first."""
    return await reader.fetch(
        "select attempt, job_id, step, item, request_id, model, state, prompt_tokens, completion_tokens, cost_micros,"
        " estimated, error, started_at, finished_at from coursegen.llm_calls where course_id = $1"
        " order by id limit 1000",
        course_id,
    )
