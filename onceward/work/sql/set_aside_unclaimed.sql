-- Delay jobs whose name no live worker knows, among the ids above $2 and up to $3. Jobs older than $1 seconds become dead
-- letters and get an attempt.
with known as (
    select array_agg(distinct t) as tasks from onceward.workers w, unnest(w.tasks) t
), stray as (
    select w.id, j.created_at <= onceward.now() - make_interval(secs => $1) as old
      from onceward.work w
      join onceward.jobs j on j.id = w.id
     where w.id > $2 and w.id <= $3 and w.kind = 'job' and w.lease is null and w.dead_reason is null
       and w.sort_at <= onceward.now() - interval '5 seconds'
       and not w.task = any(coalesce((select tasks from known), '{}'))
     order by w.id
       for update of w skip locked
), moved as (
    update onceward.work w
       set sort_at = case when s.old then w.sort_at else onceward.now() + interval '30 seconds' end,
           dead_reason = case when s.old then 'no_handler' end,
           dead_at = case when s.old then onceward.now() end
      from stray s
     where w.id = s.id
    returning w.id, w.organization_id, w.attempts, w.earlier, w.kind, w.task, w.dead_reason
), recorded as materialized (
    select onceward.record_attempts(array_agg(row(
               id, organization_id, attempts + 1, kind, task, 'dead_letter', null, null, clock_timestamp(), null,
               '{"type": "NoHandler", "reason": "no_handler", "message": "no running worker has a job of this name"}', earlier
           )::onceward.attempt))
      from moved where dead_reason is not null
)
select task, dead_reason from moved cross join recorded
