-- Record the success of a job as the last statement of its handler's transaction. A lost lease raises OW001 and prevents the commit.
-- This is the short path of settle(), because every handler pays for it: a procedure, which PostgreSQL calls without a plan, and
-- an assignment, which costs less than PERFORM.
create or replace procedure onceward.succeed_job(
    p_id bigint, p_lease bigint, p_worker bigint, p_started timestamptz, p_result jsonb
) language plpgsql as $$
declare
    v_organization uuid;
    v_attempts int;
    v_earlier smallint;
    v_task text;
    v_bundle bigint;
    v_recorded int;
begin
    delete from onceward.work where id = p_id and lease = p_lease and replaced_under is distinct from lease
    returning organization_id, attempts, earlier, task, bundle into v_organization, v_attempts, v_earlier, v_task, v_bundle;
    if not found then
        if onceward.run_again(p_id, p_lease, p_worker, 'success', p_started, p_result, null) then
            return;
        end if;
        raise exception 'work % is no longer held under this lease', p_id using errcode = 'OW001';
    end if;
    v_recorded := onceward.record_attempts(array[row(
        p_id, v_organization, v_attempts + 1, 'job', v_task, 'success', p_worker, p_started, clock_timestamp(), p_result, null,
        v_earlier
    )::onceward.attempt]);
    if v_bundle is not null then
        perform onceward.leave_bundle(v_bundle);
    end if;
end
$$;
