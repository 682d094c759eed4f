"""Courses: create, start, end, progress, lessons. Every statement runs under the row-level security of the
organization."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from onceward import Tx
from onceward.live import Query
from onceward_apps.coursegen.app import tiers

Reader = Tx | Query

ADD = """
insert into coursegen.courses (organization_id, user_id, title, brief, language, lesson_count, budget_micros, sources,
    pictures)
values (onceward.organization(), $1, $2, $3, $4, $5, $6, $7, $8) returning *
"""
CANDIDATE = """
-- Everything that decides about a request to generate, in one round trip. $4 are the known tiers, the smallest first.
select c.id, c.user_id, c.status, c.job_id, c.language, c.lesson_count, c.budget_micros, c.pictures, t.tier,
       onceward.limit_count($3) as user_jobs, g.at_most as global_limit,
       g.held as global_jobs, n.everybody as waiting, n.own as user_waiting, onceward.now() as now,
       coalesce(m.cost_micros, 0) as month_micros
  from coursegen.courses c
 cross join coursegen.waiting_numbers($2, $1) n
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
-- Put a course into the waiting line. A new version gets a fresh progress; a resume keeps what is done.
update coursegen.courses c
   set status = 'queued', job_id = $2, tier = $3, request_id = $4,
       webhook_url = case when $5::text is null then c.webhook_url else $5 end,
       webhook_endpoint = case when $5::text is null then c.webhook_endpoint else $6 end,
       attempt = c.attempt + case when $7 in ('restart', 'rewrite') then 1 else 0 end,
       generation_progress = case when $7 <> 'resume' then coursegen.fresh_progress()
                                  else coalesce((select v.progress from coursegen.course_versions v
                                                  where v.course_id = c.id and v.attempt = c.attempt),
                                                c.generation_progress, coursegen.fresh_progress()) end,
       line_at = onceward.now() - make_interval(secs => $8), admitted_at = null, waits_for = 'slot', not_before = null,
       user_limit = $9, released_at = null, error = null, error_code = null, queued_at = onceward.now(),
       started_at = null,
       begun_at = null, finished_at = null, updated_at = onceward.now()
 where c.id = $1 returning c.attempt
"""
PROGRESS = "select update_course_progress($1, $2, $3, $4, $5, $6, $7)"
BEGIN = """
update coursegen.courses
   set status = 'generating', job_id = $2, tier = $3, started_at = coalesce(started_at, onceward.now()),
       begun_at = clock_timestamp(), waits_for = null, error = null, error_code = null, finished_at = null,
       updated_at = onceward.now()
 where id = $1 returning *
"""
END = """
-- End the run. A course with a complete version stays completed, and shows it, if a newer one was not finished.
update coursegen.courses c
   set status = case when c.shown is null or $2 = 'completed' then $2 else 'completed' end,
       shown = case when $2 = 'completed' then c.attempt else c.shown end,
       generation_progress = case when c.shown is null or $2 = 'completed' then c.generation_progress
                                  else (select v.progress from coursegen.course_versions v
                                         where v.course_id = c.id and v.attempt = c.shown) end,
       error_code = $3, error = $4, admitted_at = null, waits_for = null, finished_at = onceward.now(),
       updated_at = onceward.now()
 where c.id = $1 returning *
"""
END_VERSION = """
update coursegen.course_versions v
   set progress = c.generation_progress, completed_at = case when $2 = 'completed' then onceward.now() end
  from coursegen.courses c where c.id = $1 and v.course_id = c.id and v.attempt = c.attempt
"""
ADD_VERSION = """
insert into coursegen.course_versions (organization_id, course_id, attempt, kind)
values (onceward.organization(), $1, $2, $3) on conflict (course_id, attempt) do nothing
"""
COPY_VERSION = """
-- Begin a version in which one lesson is written again: all others are those of the version before.
with version as (
    insert into coursegen.course_versions (organization_id, course_id, attempt, kind, lesson, outline, review)
    select v.organization_id, v.course_id, $2, 'rewrite', $4::smallint, v.outline, v.review
      from coursegen.course_versions v where v.course_id = $1 and v.attempt = $3
    returning course_id
)
insert into coursegen.course_lessons
    (organization_id, course_id, attempt, position, title, summary, content, content_at, exercises, exercises_at,
        picture)
select l.organization_id, l.course_id, $2, l.position, l.title, l.summary,
       case when l.position <> $4 then l.content end, case when l.position <> $4 then l.content_at end,
       case when l.position <> $4 then l.exercises end, case when l.position <> $4 then l.exercises_at end,
       case when l.position <> $4 then l.picture end
  from coursegen.course_lessons l join version v on v.course_id = l.course_id where l.attempt = $3
"""
ATTEMPT = "(select attempt from coursegen.courses where id = $1)"


async def add(
    tx: Tx,
    user_id: UUID,
    *,
    title: str,
    brief: str,
    language: str,
    lesson_count: int,
    budget_micros: int,
    sources: Sequence[Any] = (),
    pictures: bool = False,
) -> Any:
    return await tx.fetchrow(ADD, user_id, title, brief, language, lesson_count, budget_micros, list(sources), pictures)


async def candidate(tx: Tx, course_id: UUID, user_id: UUID, *, limit_key: str, tiers: Sequence[str]) -> Any:
    """Return the course of this user with all limits that apply, or None. An unknown tier counts as the first of
    `tiers`."""
    return await tx.fetchrow(CANDIDATE, course_id, user_id, limit_key, list(tiers))


async def tier(tx: Tx, user_id: UUID) -> str | None:
    return await tx.fetchval(TIER, user_id)


async def set_tier(tx: Tx, user_id: UUID, tier: str) -> bool:
    """Set the tier of a user, also for courses that wait. Return False if the user has it already."""
    changed = await tx.fetchval(
        "insert into coursegen.users as u (organization_id, user_id, tier) values (onceward.organization(), $1, $2)"
        " on conflict (organization_id, user_id) do update set tier = excluded.tier where u.tier <> excluded.tier"
        " returning true",
        user_id,
        tier,
    )
    if changed:
        slots = tiers()
        await tx.execute(
            "update coursegen.courses set tier = $2, user_limit = $3, line_at = queued_at - make_interval(secs => $4)"
            " where user_id = $1 and status in ('queued', 'generating') and admitted_at is null",
            user_id,
            tier,
            slots.of(tier),
            slots.head_start_s(tier),
        )
    return bool(changed)


async def lock(tx: Tx, course_id: UUID) -> Any:
    """Return the course and keep other transactions from changing it until the end of this one."""
    return await tx.fetchrow(LOCK, course_id)


async def owned(reader: Reader, course_id: UUID, user_id: UUID) -> Any:
    return await reader.fetchrow(OWNED, course_id, user_id)


async def listed(tx: Tx, user_id: UUID, *, limit: int) -> list[Any]:
    return await tx.fetch(
        "select id, title, status, language, lesson_count, generation_progress -> 'percentage' as percentage,"
        " created_at, updated_at from coursegen.courses where user_id = $1 order by created_at desc limit $2",
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
    head_start_s: int,
    user_limit: int,
) -> int:
    """Put a course into the waiting line, and return the number of the version that is written."""
    url, endpoint = webhook or (None, None)
    attempt = await tx.fetchval(
        QUEUE, course_id, job_id, tier, request_id, url, endpoint, start, head_start_s, user_limit
    )
    if start != "rewrite":
        await tx.execute(ADD_VERSION, course_id, attempt, "restart" if start == "restart" else "first")
    return attempt


async def copy_version(tx: Tx, course_id: UUID, attempt: int, *, source: int, lesson: int) -> bool:
    """Begin a version in which one lesson is written again. False: the source has no such lesson."""
    known = await tx.fetchval(
        "select true from coursegen.course_lessons where course_id = $1 and attempt = $2 and position = $3",
        course_id,
        source,
        lesson,
    )
    if known:
        await tx.execute(COPY_VERSION, course_id, attempt, source, lesson)
    return bool(known)


async def version(reader: Reader, course_id: UUID, attempt: int) -> Any:
    return await reader.fetchrow(
        "select * from coursegen.course_versions where course_id = $1 and attempt = $2", course_id, attempt
    )


async def versions(reader: Reader, course_id: UUID) -> list[Any]:
    """Return the versions of a course, the newest first, with the number of lessons that each has."""
    return await reader.fetch(
        "select v.attempt, v.kind, v.lesson, v.created_at, v.completed_at,"
        " (select count(*)::int from coursegen.course_lessons l"
        "   where l.course_id = v.course_id and l.attempt = v.attempt and l.content is not null) as lessons"
        " from coursegen.course_versions v where v.course_id = $1 order by v.attempt desc limit 100",
        course_id,
    )


async def show_version(tx: Tx, course_id: UUID, attempt: int) -> bool:
    """Show readers another complete version. False: there is no such complete version."""
    return bool(
        await tx.fetchval(
            "update coursegen.courses c set shown = v.attempt, status = 'completed', generation_progress = v.progress,"
            " error_code = null, error = null, updated_at = onceward.now() from coursegen.course_versions v"
            " where c.id = $1 and v.course_id = c.id and v.attempt = $2 and v.completed_at is not null returning true",
            course_id,
            attempt,
        )
    )


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
    await tx.execute(END_VERSION, course_id, status)
    return await tx.fetchrow(END, course_id, status, code, error)


async def delete(tx: Tx, course_id: UUID) -> None:
    await tx.execute("delete from coursegen.drafts where course_id = $1", course_id)
    await tx.execute("delete from coursegen.courses where id = $1", course_id)


async def set_budget(tx: Tx, course_id: UUID, micros: int) -> None:
    await tx.execute("update coursegen.courses set budget_micros = $2 where id = $1", course_id, micros)


# -- what the steps write --------------------------------------------------------------------------------------------


async def save_outline(tx: Tx, course_id: UUID, outline: dict[str, Any], lessons: Sequence[tuple[str, str]]) -> None:
    """Store the outline and one empty lesson for each of its entries."""
    await tx.execute(
        f"update coursegen.course_versions set outline = $2 where course_id = $1 and attempt = {ATTEMPT}",
        course_id,
        outline,
    )
    await tx.execute(
        "insert into coursegen.course_lessons (organization_id, course_id, attempt, position, title, summary)"
        f" select onceward.organization(), $1, {ATTEMPT}, t.n, t.title, t.summary"
        "   from unnest($2::text[], $3::text[]) with ordinality t (title, summary, n)"
        " on conflict (course_id, attempt, position) do nothing",
        course_id,
        [title for title, _ in lessons],
        [summary for _, summary in lessons],
    )


async def lessons(reader: Reader, course_id: UUID, attempt: int | None = None) -> list[Any]:
    """Return the lessons of one version; without `attempt`, of the one that is written or was written last."""
    return await reader.fetch(
        "select position, title, summary, content, part, content_at, picture, exercises, exercises_at"
        " from coursegen.course_lessons"
        f" where course_id = $1 and attempt = coalesce($2::int, {ATTEMPT}) order by position",
        course_id,
        attempt,
    )


async def save_lesson(tx: Tx, course_id: UUID, position: int, content: str) -> None:
    await tx.execute(
        "update coursegen.course_lessons set content = $3, part = null, content_at = onceward.now()"
        f" where course_id = $1 and attempt = {ATTEMPT} and position = $2 and content is null",
        course_id,
        position,
        content,
    )
    await tx.execute("delete from coursegen.drafts where course_id = $1", course_id)


async def keep_part(tx: Tx, course_id: UUID, position: int, text: str) -> None:
    """Keep the beginning of a lesson whose text reached the limit of tokens; the next call continues it."""
    await tx.execute(
        "update coursegen.course_lessons set part = $3"
        f" where course_id = $1 and attempt = {ATTEMPT} and position = $2 and content is null",
        course_id,
        position,
        text,
    )


async def save_picture(tx: Tx, course_id: UUID, position: int, picture: dict[str, str]) -> None:
    """Store the drawing of a lesson; an empty one means that the model gave none."""
    await tx.execute(
        "update coursegen.course_lessons set picture = $3"
        f" where course_id = $1 and attempt = {ATTEMPT} and position = $2 and picture is null",
        course_id,
        position,
        picture,
    )


async def save_exercises(tx: Tx, course_id: UUID, position: int, exercises: list[dict[str, Any]]) -> None:
    await tx.execute(
        "update coursegen.course_lessons set exercises = $3, exercises_at = onceward.now()"
        f" where course_id = $1 and attempt = {ATTEMPT} and position = $2 and exercises is null",
        course_id,
        position,
        exercises,
    )


async def save_review(tx: Tx, course_id: UUID, review: dict[str, Any]) -> None:
    await tx.execute(
        f"update coursegen.course_versions set review = $2 where course_id = $1 and attempt = {ATTEMPT}",
        course_id,
        review,
    )


async def edit(
    tx: Tx,
    course_id: UUID,
    *,
    title: str,
    brief: str,
    language: str,
    lesson_count: int,
    budget_micros: int,
    sources: Sequence[Any],
    pictures: bool,
) -> None:
    await tx.execute(
        "update coursegen.courses set title = $2, brief = $3, language = $4, lesson_count = $5, budget_micros = $6,"
        " sources = $7, pictures = $8, updated_at = onceward.now() where id = $1",
        course_id,
        title,
        brief,
        language,
        lesson_count,
        budget_micros,
        list(sources),
        pictures,
    )


async def show_draft(tx: Tx, course_id: UUID, *, step: int, item: str, title: str, text: str) -> None:
    await tx.execute(
        "insert into coursegen.drafts (course_id, organization_id, step, item, title, text)"
        " select c.id, c.organization_id, $2, $3, $4, $5 from coursegen.courses c where c.id = $1"
        " and c.status = 'generating'"
        " on conflict (course_id) do update set step = excluded.step, item = excluded.item, title = excluded.title,"
        " text = excluded.text, updated_at = clock_timestamp()",
        course_id,
        step,
        item,
        title,
        text,
    )
