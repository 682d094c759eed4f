-- Record the success of an event as the last statement of its handler's transaction, like succeed_job() of `work`. A lost lease
-- raises OW001 and prevents the commit.
create or replace procedure onceward.succeed_event(
    p_id bigint, p_lease bigint, p_worker bigint, p_started timestamptz, p_result jsonb
) language plpgsql as $$
declare
    v_organization uuid;
    v_attempts int;
    v_earlier smallint;
    v_task text;
    v_recorded int;
begin
    delete from onceward.work where id = p_id and lease = p_lease
    returning organization_id, attempts, earlier, task into v_organization, v_attempts, v_earlier, v_task;
    if not found then
        raise exception 'work % is no longer held under this lease', p_id using errcode = 'OW001';
    end if;
    v_recorded := onceward.record_attempts(array[row(
        p_id, v_organization, v_attempts + 1, 'event', v_task, 'success', p_worker, p_started, clock_timestamp(), p_result, null,
        v_earlier
    )::onceward.attempt]);
    update onceward.webhook_events e
       set status = 'success', attempts = greatest(e.attempts, v_attempts + 1), last_attempt_at = onceward.now(),
           processed_at = onceward.now(), error = null, result = coalesce(p_result, e.result), settles = e.settles + 1
     where e.seq = p_id;
end
$$;
