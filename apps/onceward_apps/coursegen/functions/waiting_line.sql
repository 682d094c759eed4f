-- List the courses that wait for slots, the next one first. The order is the time of the request, minus the head start of the
-- tier, plus p_share_s for each other unfinished course of the same user before it. So a course that waits long enough is
-- ahead of every later one, whatever its tier. `needs_only_global`: the user has a free slot for it.
create or replace function coursegen.waiting_line(p_share_s int)
    returns table (course_id uuid, organization_id uuid, user_id uuid, job_id bigint, tier text, waits_for text,
                   not_before timestamptz, needs_only_global boolean, place bigint)
    language sql stable security definer set search_path = pg_catalog, pg_temp as $$
    with waiting as (
        select c.id, c.organization_id, c.user_id, c.job_id, c.tier, c.waits_for, c.not_before, c.line_at, c.user_limit,
               row_number() over (partition by c.organization_id, c.user_id order by c.line_at, c.id) - 1 + (
                   select count(*) from coursegen.courses a
                    where a.organization_id = c.organization_id and a.user_id = c.user_id
                      and a.status in ('queued', 'generating') and a.admitted_at is not null) as others
          from coursegen.courses c
         where c.status in ('queued', 'generating') and c.admitted_at is null and c.job_id is not null
    )
    select w.id, w.organization_id, w.user_id, w.job_id, w.tier, w.waits_for, w.not_before,
           w.waits_for is distinct from 'account' and w.others < coalesce(w.user_limit, 1),
           row_number() over (order by w.line_at + make_interval(secs => p_share_s * w.others), w.id)
      from waiting w order by 9
$$;
revoke all on function coursegen.waiting_line(int) from public;
grant execute on function coursegen.waiting_line(int) to onceward_engine;
