-- Append finished attempts. Nothing else inserts into onceward.attempts, so every end of a work item passes through here.
-- Work without a worker was ended by SQL (cancelled, discarded, no handler): its on_end hooks become jobs. A worker runs the
-- hooks of the work that it settles. p_shared is how many handlers shared the commit. Returns how many attempts there were, so that a
-- caller can use a plain assignment.
create or replace function onceward.record_attempts(p_attempts onceward.attempt[], p_shared int default null) returns int
    language plpgsql as $$
begin
    insert into onceward.attempts
        (work_id, organization_id, number, kind, task, outcome, worker, started_at, finished_at, result, error, shared)
    select a.work_id, a.organization_id, a.number + coalesce(a.earlier, 0), a.kind, a.task, a.outcome, a.worker, a.started_at,
           a.finished_at, a.result, a.error, p_shared
      from unnest(p_attempts) a;
    if p_attempts[1].worker is null then
        perform onceward.enqueue_end_hooks(p_attempts);
    end if;
    return cardinality(p_attempts);
end
$$;
