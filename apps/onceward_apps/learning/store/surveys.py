"""SQL of surveys: which survey is which, what people answered, and the numbers of a cohort that follow from it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from onceward import Tx

ENROLLMENT = """
select e.id, e.user_id, e.cohort_id, e.status, e.exit_survey_completed_at, u.email, u.name as user_name, u.locale,
       u.erased_at,
       c.name as cohort_name
  from learning.enrollments e
  join learning.users u on u.id = e.user_id
  join learning.cohorts c on c.id = e.cohort_id
 where e.id = $1 for no key update of e
"""
RECORD = """
insert into learning.survey_responses (response_id, survey_id, kind, enrollment_id, answers, rating)
values ($1, $2, $3, $4, $5, $6)
on conflict (organization_id, survey_id, response_id) do nothing returning id
"""
INTAKE = """
update learning.enrollments
   set intake_survey_completed_at = coalesce(intake_survey_completed_at, onceward.now()),
   intake_survey_response_id = $2,
       student_profile = student_profile || $3::jsonb,
       onboarding_progress = onboarding_progress || '{"intakeSurveyDone": true}'
 where id = $1
"""
EXIT = """
update learning.enrollments
   set exit_survey_completed_at = coalesce(exit_survey_completed_at, onceward.now()), exit_survey_response_id = $2,
       feedback = $3, nps_score = coalesce($4, nps_score), nps_category = coalesce($5, nps_category)
 where id = $1
"""
# Counted from the rows each time: a second answer of the same person replaces the first.
METRICS = """
insert into learning.cohort_metrics as m (cohort_id, completion_rate, nps_score, satisfaction, responses, updated_at)
select c.id,
       (select round(100.0 * count(*) filter (where d.required > 0 and 100 * d.done >= 80 * d.required) /
           nullif(count(*), 0), 1)
          from learning.enrollments e
          cross join lateral (
              select count(*) as required, count(p.item_id) as done
                from learning.content_items i left join learning.progress p on p.item_id = i.id
                 and p.enrollment_id = e.id
               where i.cohort_id = c.id and i.required) d
         where e.cohort_id = c.id and e.status in ('ACTIVE', 'EXPIRED')),
       s.nps, s.satisfaction, s.responses, onceward.now()
  from learning.cohorts c
  cross join lateral (
      select round(100.0 * (count(*) filter (where nps_category = 'PROMOTER')
                            - count(*) filter (where nps_category = 'DETRACTOR')) / nullif(count(*), 0)) as nps,
             round(avg((feedback ->> 'overallSatisfaction')::numeric), 2) as satisfaction, count(*) as responses
        from learning.enrollments e where e.cohort_id = c.id and e.nps_score is not null) s
 where c.id = $1
on conflict (cohort_id) do update set completion_rate = excluded.completion_rate, nps_score = excluded.nps_score,
    satisfaction = excluded.satisfaction, responses = excluded.responses, updated_at = excluded.updated_at
"""


async def survey_map(tx: Tx, survey_id: str) -> Any:
    return await tx.fetchrow("select kind, fields from learning.survey_maps where survey_id = $1", survey_id)


async def set_survey_map(tx: Tx, survey_id: str, kind: str, fields: Mapping[str, str]) -> bool:
    """Store what a survey is. Returns False if this is known."""
    changed = await tx.fetchval(
        "insert into learning.survey_maps as m (survey_id, kind, fields) values ($1, $2, $3)"
        " on conflict (organization_id, survey_id) do update"
        " set kind = excluded.kind, fields = excluded.fields, updated_at = onceward.now()"
        " where (m.kind, m.fields) is distinct from (excluded.kind, excluded.fields) returning true",
        survey_id,
        kind,
        dict(fields),
    )
    return bool(changed)


async def survey_maps(tx: Tx) -> list[Any]:
    return await tx.fetch(
        "select survey_id, kind, fields, updated_at from learning.survey_maps"
        " where organization_id = onceward.organization() order by survey_id"
    )


async def enrollment(tx: Tx, enrollment_id: UUID) -> Any:
    """Return the enrolment, locked, with its student and cohort."""
    return await tx.fetchrow(ENROLLMENT, enrollment_id)


async def record(
    tx: Tx,
    *,
    response_id: str,
    survey_id: str,
    kind: str,
    enrollment_id: UUID | None,
    answers: Mapping[str, Any],
    rating: int | None = None,
) -> bool:
    """Keep a response. Returns False if it was recorded before."""
    row = await tx.fetchval(RECORD, response_id, survey_id, kind, enrollment_id, dict(answers), rating)
    return row is not None


async def save_intake(tx: Tx, enrollment_id: UUID, response_id: str, profile: Mapping[str, Any]) -> None:
    await tx.execute(INTAKE, enrollment_id, response_id, dict(profile))


async def save_exit(
    tx: Tx, enrollment_id: UUID, response_id: str, feedback: Mapping[str, Any], score: int | None, category: str | None
) -> None:
    await tx.execute(EXIT, enrollment_id, response_id, dict(feedback), score, category)


async def assign_resource(tx: Tx, enrollment_id: UUID, resource: str) -> None:
    await tx.execute(
        "insert into learning.supplemental_resources (enrollment_id, resource) values ($1, $2) on conflict do nothing",
        enrollment_id,
        resource,
    )


async def refresh_cohort_metrics(tx: Tx, cohort_id: UUID) -> None:
    await tx.execute(METRICS, cohort_id)
