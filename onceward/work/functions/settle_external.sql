-- Record how a program in another language ended its attempt, fenced by the lease. p_outcome: success, failed (repeated as the task says,
-- or after p_retry_s), permanent, or released (nothing counts; due again now). Returns what became of the job.
create or replace function onceward.settle_external(
    p_id bigint, p_lease bigint, p_outcome text, p_result jsonb, p_error text, p_retry_s double precision, p_all boolean,
    p_organization uuid
) returns text language plpgsql as $$
declare
    v record;
    v_task onceward.external_tasks;
    v_outcome text := p_outcome;
    v_reason text;
    v_wait_s double precision;
    v_waits_s double precision[];
    v_error jsonb;
begin
    select * into v from onceward.external_held(p_id, p_lease, p_all, p_organization);
    select * into v_task from onceward.external_tasks t where t.task = v.task;
    if p_outcome = 'released' and not v.cancel then
        update onceward.work w set lease = null, claimed_at = null, slot = null, parent_slot = null, replaced_under = null
         where w.id = p_id and w.lease = p_lease;
        delete from onceward.external_claims c where c.work_id = p_id and c.lease = p_lease;
        return 'released';
    end if;
    if p_outcome <> 'success' then
        v_waits_s := coalesce(v_task.waits_s, '{15,35,83,195,457,1075,2527,5938,13954,21600}');
        v_wait_s := coalesce(p_retry_s, v_waits_s[least(v.attempts + 1, cardinality(v_waits_s))]
            * (1 + (2 * random() - 1) * coalesce(v_task.jitter, 0.2)));
        if p_outcome = 'permanent' then
            v_reason := 'permanent';
        elsif p_outcome = 'failed' and v.attempts + 1 >= coalesce(v.max_attempts, v_task.max_attempts, 12) then
            v_reason := 'max_attempts_exceeded';
        end if;
        v_outcome := case when v.cancel then 'cancelled'
                          when v_reason is null then 'retry'
                          when coalesce(v_task.critical, true) then 'dead_letter' else 'failed' end;
        v_error := jsonb_strip_nulls(jsonb_build_object(
            'type', 'Reported', 'message', left(coalesce(p_error, 'no reason was given'), 4000), 'reason', v_reason));
    end if;
    if not onceward.settle(p_id, p_lease, null, v_outcome, v.claimed_at, p_result, v_error,
                           onceward.now() + make_interval(secs => v_wait_s), v_reason) then
        raise exception 'job % is not held under this lease', p_id using errcode = 'OW001';
    end if;
    delete from onceward.external_claims c where c.work_id = p_id and c.lease = p_lease;
    return v_outcome;
end
$$;
