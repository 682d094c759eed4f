-- End many workflows in one commit: delete the work, record the attempt, set the final state, answer a waiting parent.
-- A workflow does not end if its lease was lost, or if the history lacks a step that the run relies on.
with input as materialized (
    select * from unnest($1::bigint[], $2::bigint[], $3::text[], $4::text[], $5::text[], $6::float8[],
                         $7::bigint[], $8::text[], $9::text[])
        as i (id, lease, outcome, result, error, elapsed_s, worker, required, finished)
), gone as (
    delete from onceward.work w
     where w.id = any($1::bigint[]) and w.lease = any($2::bigint[])
       and not exists (select from input i
                        where i.id = w.id and onceward.workflow_lacks(i.id, i.required::int[], i.finished::boolean[]))
    returning id, lease, organization_id, attempts, earlier, task
), recorded as materialized (
    select onceward.record_attempts(array_agg(row(
               g.id, g.organization_id, g.attempts + 1, 'workflow', g.task, i.outcome, i.worker,
               clock_timestamp() - make_interval(secs => i.elapsed_s), clock_timestamp(),
               case when strpos(i.result, '\u0000') = 0 and length(i.result) <= 65536 then i.result::jsonb end, i.error::jsonb,
               g.earlier
           )::onceward.attempt))
      from gone g join input i on i.id = g.id and i.lease = g.lease
), ended as (
    update onceward.workflows w
       set state = i.outcome, result = i.result::json, error = i.error::jsonb, finished_at = onceward.now()
      from gone g join input i on i.id = g.id and i.lease = g.lease
     where w.id = g.id
    returning w.id, w.parent_id, w.parent_position, w.state, i.result, i.error
)
select id, parent_id is not null as has_parent,
       case when parent_id is not null and state <> 'continued' then
           onceward.workflow_tell_parent(parent_id, parent_position, state, result::json, error::jsonb)
       end
  from ended cross join recorded
