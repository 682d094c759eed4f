"""Invariants of course generation. `onceward verify` checks them on a live database."""

from __future__ import annotations

from onceward.trust import Check, finds_nothing

SLOTS = """
-- A running course holds one slot of its user and one of the global limit. A course that waits holds none.
select format('course %s is %s, and its job %s holds %s slots instead of %s', c.id, c.status, c.job_id,
              count(s.work_id), case when c.admitted_at is null then 0 else 2 end)
  from coursegen.courses c
  join onceward.work w on w.id = c.job_id and w.dead_reason is null
  left join onceward.limit_slots s on s.work_id = c.job_id
 where c.status in ('queued', 'generating')
 group by c.id having count(s.work_id) <> case when c.admitted_at is null then 0 else 2 end
 limit $1
"""
JOBS = """
-- A course that looks as if it were being generated has a job. Reconciliation gets ten minutes.
select format('course %s is %s since %s, and its job %s has ended', c.id, c.status, c.updated_at, c.job_id)
  from coursegen.courses c
 where c.status in ('queued', 'generating') and c.updated_at < onceward.now() - interval '10 minutes'
   and not exists (select from onceward.work w where w.id = c.job_id and w.dead_reason is null)
 limit $1
"""
COMPLETE = """
-- A completed course has every lesson, its exercises and all five steps.
select format('course %s is completed, and lesson %s is not', c.id, l.position)
  from coursegen.courses c join coursegen.course_lessons l on l.course_id = c.id and l.attempt = c.shown
 where c.status = 'completed' and l.content is null
union all
select format('course %s is completed at %s %%', c.id, c.generation_progress ->> 'percentage')
  from coursegen.courses c
 where c.status = 'completed' and (c.generation_progress ->> 'percentage')::int is distinct from 100
limit $1
"""
PROGRESS = """
-- The percentage is that of the furthest step.
select format('course %s shows %s %% and its steps give %s %%', c.id, c.generation_progress ->> 'percentage', x.least)
  from coursegen.courses c
 cross join lateral (
     select coalesce(max(case s.value ->> 'status' when 'completed' then s.n * 20 when 'in_progress' then s.n * 20 - 10
            end), 0) as least
       from jsonb_array_elements(c.generation_progress -> 'steps') with ordinality s (value, n)) x
 where jsonb_typeof(c.generation_progress -> 'steps') = 'array'
   and (c.generation_progress ->> 'percentage')::int < x.least
limit $1
"""
COSTS = """
-- The sums by month and tier are the sums of the calls.
select format('organization %s, %s, %s: the sum is %s, its calls cost %s', x.organization_id, x.month, x.tier, x.summed,
       x.called)
  from (select coalesce(t.organization_id, c.organization_id) as organization_id, coalesce(t.month, c.month) as month,
               coalesce(t.tier, c.tier) as tier, coalesce(t.cost_micros, 0) as summed, coalesce(c.cost, 0) as called
          from coursegen.tier_costs t
          full join (select organization_id, tier, sum(cost_micros) as cost,
                            date_trunc('month', finished_at at time zone 'utc')::date as month
                       from coursegen.llm_calls where state <> 'started' group by 1, 2, 4) c
            on c.organization_id = t.organization_id and c.tier = t.tier and c.month = t.month) x
 where x.summed <> x.called
limit $1
"""
USER_COSTS = """
-- No user has spent more in a month than the calls of the organization cost.
select format('organization %s, %s: users have %s, all calls cost %s', x.organization_id, x.month, x.users, x.called)
  from (select u.organization_id, u.month, sum(u.cost_micros) as users,
               coalesce((select sum(t.cost_micros) from coursegen.tier_costs t
                          where t.organization_id = u.organization_id and t.month = u.month), 0) as called
          from coursegen.user_costs u group by 1, 2) x
 where x.users > x.called
limit $1
"""
OPEN_CALLS = """
-- A call that is being made belongs to a job that has not ended.
select format('call %s of course %s is open, and its job %s has ended', l.request_id, l.course_id, l.job_id)
  from coursegen.llm_calls l
 where l.state = 'started' and not exists (select from onceward.work w where w.id = l.job_id and w.dead_reason is null)
limit $1
"""
PAID_ONCE = """
-- A lesson that is a checkpoint was paid for once since it was last asked for again: no two complete answers in one
-- job.
select format('course %s, attempt %s: job %s paid %s times for %s', course_id, attempt, job_id, count(*), item)
  from coursegen.llm_calls where state = 'done' and item not like '%:repair' and error is null
 group by course_id, attempt, job_id, item having count(*) > 1
 limit $1
"""


CHECKS: tuple[Check, ...] = (
    finds_nothing("coursegen.only_running_courses_hold_slots", SLOTS),
    finds_nothing("coursegen.running_courses_have_a_job", JOBS),
    finds_nothing("coursegen.completed_courses_are_complete", COMPLETE),
    finds_nothing("coursegen.progress_shows_its_steps", PROGRESS),
    finds_nothing("coursegen.costs_add_up", COSTS),
    finds_nothing("coursegen.costs_of_users_add_up", USER_COSTS),
    finds_nothing("coursegen.open_calls_have_a_job", OPEN_CALLS),
    finds_nothing("coursegen.no_lesson_is_paid_for_twice", PAID_ONCE),
)
