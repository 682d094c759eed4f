"""Courses: create, start, end, progress, lessons. Every statement runs under the row-level security of the organization."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from onceward import Tx
from onceward.live import Query

Reader = Tx | Query

ADD = """
insert into coursegen.courses (organization_id, user_id, title, brief, language, lesson_count, budget_micros)
values (onceward.organization(), $1, $2, $3, $4, $5, $6) returning *
"""
CANDIDATE = """
-- Everything that decides about a request to generate, in one round trip. $4 are the known tiers, the smallest first.
select c.id, c.status, c.job_id, c.language, t.tier, onceward.limit_count($3) as user_jobs, g.at_most as global_limit,
       g.held as global_jobs, onceward.now() as now, coalesce(m.cost_micros, 0) as month_micros
  from coursegen.courses c
 cross join onceward.limit_state('global') g
  left join coursegen.users u on u.user_id = c.user_id
 cross join lateral (select case when u.tier = any($4) then u.tier else ($4::text[])[1] end as tier) t
  left join coursegen.tier_costs m
    on m.tier = t.tier and m.month = date_trunc('month', onceward.now() at time zone 'utc')::date
 where c.id = $1 and c.user_id = $2
"""
TIER = "select tier from coursegen.users where user_id = $1"
LOCK = "select * from coursegen.courses where id = $1 for update"
OWNED = "select * from coursegen.courses where id = $1 and user_id = $2"
QUEUE = """
-- Admit a course. A first start and a restart get a fresh progress; a resume keeps what is done.
update coursegen.courses c
   set status = 'queued', job_id = $2, tier = $3, request_id = $4,
       webhook_url = case when $5::text is null then c.webhook_url else $5 end,
       webhook_endpoint = case when $5::text is null then c.webhook_endpoint else $6 end,
       attempt = c.attempt + case when $7 = 'restart' then 1 else 0 end,
       generation_progress = case when $7 = 'resume' and c.generation_progress is not null then c.generation_progress
                                  else coursegen.fresh_progress() end,
       outline = case when $7 = 'resume' then c.outline end,
       review = case when $7 = 'resume' then c.review end,
       error = null, error_code = null, queued_at = onceward.now(), started_at = null, begun_at = null,
       finished_at = null, updated_at = onceward.now()
 where c.id = $1 returning c.attempt
"""
PROGRESS = "select update_course_progress($1, $2, $3, $4, $5, $6, $7)"
BEGIN = """
update coursegen.courses
   set status = 'generating', job_id = $2, tier = $3, started_at = coalesce(started_at, onceward.now()),
       begun_at = clock_timestamp(), error = null, error_code = null, finished_at = null, updated_at = onceward.now()
 where id = $1 returning *
"""
END = """
update coursegen.courses
   set status = $2, error_code = $3, error = $4, finished_at = onceward.now(), updated_at = onceward.now()
 where id = $1 returning *
"""


async def add(
    tx: Tx, user_id: UUID, *, title: str, brief: str, language: str, lesson_count: int, budget_micros: int
) -> Any:
    return await tx.fetchrow(ADD, user_id, title, brief, language, lesson_count, budget_micros)


async def candidate(tx: Tx, course_id: UUID, user_id: UUID, *, limit_key: str, tiers: Sequence[str]) -> Any:
    """Return the course of this user with all limits that apply, or None. An unknown tier counts as the first of `tiers`."""
    return await tx.fetchrow(CANDIDATE, course_id, user_id, limit_key, list(tiers))


async def tier(tx: Tx, user_id: UUID) -> str | None:
    return await tx.fetchval(TIER, user_id)


async def set_tier(tx: Tx, user_id: UUID, tier: str) -> bool:
    """Set the tier of a user. Return False if the user has it already."""
    changed = await tx.fetchval(
        "insert into coursegen.users as u (organization_id, user_id, tier) values (onceward.organization(), $1, $2)"
        " on conflict (organization_id, user_id) do update set tier = excluded.tier where u.tier <> excluded.tier"
        " returning true",
        user_id,
        tier,
    )
    return bool(changed)


async def lock(tx: Tx, course_id: UUID) -> Any:
    """Return the course and keep other transactions from changing it until the end of this one."""
    return await tx.fetchrow(LOCK, course_id)


async def owned(reader: Reader, course_id: UUID, user_id: UUID) -> Any:
    return await reader.fetchrow(OWNED, course_id, user_id)


async def listed(tx: Tx, user_id: UUID, *, limit: int) -> list[Any]:
    return await tx.fetch(
        "select id, title, status, language, lesson_count, generation_progress -> 'percentage' as percentage, created_at,"
        " updated_at from coursegen.courses where user_id = $1 order by created_at desc limit $2",
        user_id,
        limit,
    )


async def queue(
    tx: Tx,
    course_id: UUID,
    *,
    job_id: int,
    tier: str,
    request_id: str | None,
    webhook: tuple[str, UUID | None] | None,
    start: str,
) -> int:
    """Record that a course is admitted, and return the number of its attempt."""
    if start == "restart":
        await tx.execute("delete from coursegen.course_lessons where course_id = $1", course_id)
    url, endpoint = webhook or (None, None)
    return await tx.fetchval(QUEUE, course_id, job_id, tier, request_id, url, endpoint, start)


async def progress(
    tx: Tx,
    course_id: UUID,
    step: int,
    status: str,
    message: str | None,
    *,
    error: str | None = None,
    details: dict[str, Any] | None = None,
    metadata: dict[str, Any] | None = None,
) -> dict[str, Any]:
    return await tx.fetchval(PROGRESS, course_id, step, status, message, error, details, metadata or {})


async def begin(tx: Tx, course_id: UUID, *, job_id: int, tier: str) -> Any:
    return await tx.fetchrow(BEGIN, course_id, job_id, tier)


async def end(tx: Tx, course_id: UUID, status: str, code: str | None, error: str | None) -> Any:
    await tx.execute("delete from coursegen.drafts where course_id = $1", course_id)
    return await tx.fetchrow(END, course_id, status, code, error)


async def delete(tx: Tx, course_id: UUID) -> None:
    await tx.execute("delete from coursegen.drafts where course_id = $1", course_id)
    await tx.execute("delete from coursegen.courses where id = $1", course_id)


async def set_budget(tx: Tx, course_id: UUID, micros: int) -> None:
    await tx.execute("update coursegen.courses set budget_micros = $2 where id = $1", course_id, micros)


# -- what the steps write --------------------------------------------------------------------------------------------


async def save_outline(tx: Tx, course_id: UUID, outline: dict[str, Any], lessons: Sequence[tuple[str, str]]) -> None:
    """Store the outline and one empty lesson for each of its entries."""
    await tx.execute("update coursegen.courses set outline = $2 where id = $1", course_id, outline)
    await tx.execute(
        "insert into coursegen.course_lessons (organization_id, course_id, position, title, summary)"
        " select onceward.organization(), $1, t.n, t.title, t.summary"
        "   from unnest($2::text[], $3::text[]) with ordinality t (title, summary, n)"
        " on conflict (course_id, position) do nothing",
        course_id,
        [title for title, _ in lessons],
        [summary for _, summary in lessons],
    )


async def lessons(reader: Reader, course_id: UUID) -> list[Any]:
    return await reader.fetch(
        "select position, title, summary, content, content_at, exercises, exercises_at from coursegen.course_lessons"
        " where course_id = $1 order by position",
        course_id,
    )


async def save_lesson(tx: Tx, course_id: UUID, position: int, content: str) -> None:
    await tx.execute(
        "update coursegen.course_lessons set content = $3, content_at = onceward.now()"
        " where course_id = $1 and position = $2 and content is null",
        course_id,
        position,
        content,
    )
    await tx.execute("delete from coursegen.drafts where course_id = $1", course_id)


async def save_exercises(tx: Tx, course_id: UUID, position: int, exercises: list[dict[str, Any]]) -> None:
    await tx.execute(
        "update coursegen.course_lessons set exercises = $3, exercises_at = onceward.now()"
        " where course_id = $1 and position = $2 and exercises is null",
        course_id,
        position,
        exercises,
    )


async def clear_lesson(tx: Tx, course_id: UUID, position: int) -> bool:
    """Forget a lesson's text and exercises, so that the next run writes them again. False: there is no such lesson."""
    return (
        await tx.fetchval(
            "update coursegen.course_lessons set content = null, content_at = null, exercises = null, exercises_at = null"
            " where course_id = $1 and position = $2 returning position",
            course_id,
            position,
        )
        is not None
    )


async def save_review(tx: Tx, course_id: UUID, review: dict[str, Any]) -> None:
    await tx.execute("update coursegen.courses set review = $2 where id = $1", course_id, review)


async def show_draft(tx: Tx, course_id: UUID, *, step: int, item: str, title: str, text: str) -> None:
    await tx.execute(
        "insert into coursegen.drafts (course_id, organization_id, step, item, title, text)"
        " select c.id, c.organization_id, $2, $3, $4, $5 from coursegen.courses c where c.id = $1 and c.status = 'generating'"
        " on conflict (course_id) do update set step = excluded.step, item = excluded.item, title = excluded.title,"
        " text = excluded.text, updated_at = clock_timestamp()",
        course_id,
        step,
        item,
        title,
        text,
    )
