-- Return whether the history lacks a step that the run relies on. A failover without synchronous replication can lose the latest
-- commits of a run and keep its lease: then the history decides, not the memory of the process.
-- p_finished: the step at this position must also be finished; others may have been answered meanwhile.
create or replace function onceward.workflow_lacks(p_id bigint, p_required int[], p_finished boolean[])
    returns boolean language sql stable as $$
    select exists (
        select from unnest(p_required, p_finished) as r (position, finished)
         where not exists (
             select from onceward.workflow_steps s
              where s.workflow_id = p_id and s.position = r.position
                and (not r.finished or s.state in ('done', 'failed'))))
$$;
