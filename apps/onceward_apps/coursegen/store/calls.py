"""The log of calls to the language model, and the costs by month and tier."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from onceward import Tx
from onceward.live import Query

Reader = Tx | Query

START = """
insert into coursegen.llm_calls
    (organization_id, course_id, attempt, job_id, step, item, request_id, tier, model, reserved_micros)
values (onceward.organization(), $1, $2, $3, $4, $5, $6, $7, $8, $9)
"""
FINISH = """
-- End a call once, and add its cost to the month of its tier in the same statement.
with ended as (
    update coursegen.llm_calls
       set state = $2, prompt_tokens = $3, completion_tokens = $4, cost_micros = $5, estimated = $6, error = $7,
           finished_at = onceward.now()
     where request_id = $1 and state = 'started'
    returning organization_id, tier, cost_micros
)
insert into coursegen.tier_costs as t (organization_id, month, tier, cost_micros, calls)
select e.organization_id, date_trunc('month', onceward.now() at time zone 'utc')::date, e.tier, e.cost_micros, 1 from ended e
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


async def start(
    tx: Tx,
    *,
    course_id: UUID,
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
    await tx.execute(START, course_id, attempt, job_id, step, item, request_id, tier, model, reserved_micros)


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
        " estimated, error, started_at, finished_at from coursegen.llm_calls where course_id = $1 order by id limit 1000",
        course_id,
    )
