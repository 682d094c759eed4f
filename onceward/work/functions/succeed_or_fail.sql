-- Record a success as the last statement of a handler's transaction. A lost lease raises OW001 and prevents the commit.
-- This is the short path of settle(), without branches, because every handler pays for it.
create or replace function onceward.succeed_or_fail(
    p_id bigint, p_lease bigint, p_worker bigint, p_started timestamptz, p_result jsonb
) returns void language plpgsql as $$
declare
    v_organization uuid;
    v_number int;
    v_kind text;
    v_task text;
    v_bundle bigint;
begin
    delete from onceward.work where id = p_id and lease = p_lease
    returning organization_id, attempts + 1, kind, task, bundle into v_organization, v_number, v_kind, v_task, v_bundle;
    if not found then
        raise exception 'work % is no longer held under this lease', p_id using errcode = 'OW001';
    end if;
    perform onceward.record_attempts(array[row(
        p_id, v_organization, v_number, v_kind, v_task, 'success', p_worker, p_started, clock_timestamp(), p_result, null
    )::onceward.attempts]);
    if v_bundle is not null then
        perform onceward.leave_bundle(v_bundle);
    end if;
    if v_kind <> 'job' then
        perform onceward.settled(v_kind, p_id, 'success', v_number, p_result, null);
    end if;
end
$$;
