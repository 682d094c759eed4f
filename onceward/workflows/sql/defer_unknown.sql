-- Postpone workflows whose name no running worker knows, among the ids above $2 and up to $3. After the period, they become
-- dead letters.
with known as (
    select coalesce(array_agg(distinct t), '{}') as tasks from onceward.workers w, unnest(w.tasks) t
), stray as (
    select w.id, f.created_at < onceward.now() - $1::interval as old
      from onceward.work w join onceward.workflows f on f.id = w.id
     where w.id > $2 and w.id <= $3 and w.kind = 'workflow' and w.lease is null and w.dead_reason is null
       and w.sort_at <= onceward.now() - interval '5 seconds' and not w.task = any((select tasks from known)::text[])
     order by w.id for update of w skip locked
), dead as (
    update onceward.workflows f
       set state = 'dead_letter',
           error = jsonb_build_object('type', 'NoHandler', 'reason', 'no_handler',
                                      'message', 'no running worker has a workflow of this name: ' || f.name)
      from stray s where f.id = s.id and s.old
), moved as (
    update onceward.work w
       set sort_at = case when s.old then w.sort_at else onceward.now() + interval '30 seconds' end,
           dead_reason = case when s.old then 'no_handler' end, dead_at = case when s.old then onceward.now() end
      from stray s where w.id = s.id
    returning w.id, w.organization_id, w.attempts, w.earlier, w.task, w.dead_reason
), recorded as materialized (
    select onceward.record_attempts(array_agg(row(
               id, organization_id, attempts + 1, 'workflow', task, 'dead_letter', null, null, clock_timestamp(), null,
               jsonb_build_object('type', 'NoHandler', 'reason', 'no_handler',
                                  'message', 'no running worker has a workflow of this name'), earlier
           )::onceward.attempt))
      from moved where dead_reason is not null
)
select task from moved cross join recorded
