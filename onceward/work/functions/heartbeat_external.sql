-- Extend a claim. `cancel`: an operator wants the job to stop; its program should call onceward.fail_job.
create or replace function onceward.heartbeat_external(
    p_id bigint, p_lease bigint, p_lease_s double precision, p_all boolean, p_organization uuid
) returns text language plpgsql as $$
declare
    v record;
begin
    if not p_lease_s between 1 and 86400 then
        raise exception 'lease_s must be between 1 and 86400, not %', p_lease_s using errcode = '22023';
    end if;
    select * into v from onceward.external_held(p_id, p_lease, p_all, p_organization);
    update onceward.external_claims c
       set expires_at = clock_timestamp() + make_interval(secs => coalesce(
               p_lease_s, (select t.lease_s from onceward.external_tasks t where t.task = v.task), 60))
     where c.work_id = p_id and c.lease = p_lease;
    return case when v.cancel then 'cancel' else 'held' end;
end
$$;
