-- Record an attempt whose job got new arguments while it ran, and let the job run with them: whatever the outcome, the job is not
-- finished. Fenced by the lease. False: nobody has replaced the arguments under this lease, and nothing was written.
create or replace function onceward.run_again(
    p_id bigint, p_lease bigint, p_worker bigint, p_outcome text, p_started timestamptz, p_result jsonb, p_error jsonb
) returns boolean language plpgsql as $$
declare
    v record;
    v_recorded int;
begin
    update onceward.work
       set lease = null, claimed_at = null, slot = null, parent_slot = null, replaced_under = null, crashes = 0, attempts = 0,
           earlier = earlier + attempts + 1
     where id = p_id and lease = p_lease and replaced_under = p_lease
    returning organization_id, kind, task, earlier into v;
    if not found then
        return false;
    end if;
    v_recorded := onceward.record_attempts(array[row(
        p_id, v.organization_id, 0, v.kind, v.task, case when p_outcome = 'dead_letter' then 'retry' else p_outcome end, p_worker,
        p_started, clock_timestamp(), p_result, p_error, v.earlier
    )::onceward.attempt]);
    delete from onceward.checkpoints where work_id = p_id;
    return true;
end
$$;
