-- Record in system_metrics that an enqueue met the unique key of an existing job. Only the engine may write that table, so the
-- function runs with the rights of its owner and writes nothing else. The user is recorded if it is a UUID.
create or replace function onceward.note_duplicate_job(p_id bigint, p_task text, p_key text, p_organization uuid, p_context jsonb)
    returns void language sql security definer set search_path = pg_catalog, pg_temp as $$
    insert into onceward.system_metrics (event_type, severity, user_id, job_id, metadata)
    values ('duplicate_job_detected', 'info',
        case when p_context ->> 'user' ~* '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$' then (p_context ->> 'user')::uuid end,
        p_id::text, jsonb_strip_nulls(jsonb_build_object(
        'task', p_task, 'unique_key', p_key, 'organization_id', p_organization, 'request', p_context -> 'request')))
$$;

revoke all on function onceward.note_duplicate_job(bigint, text, text, uuid, jsonb) from public;
grant execute on function onceward.note_duplicate_job(bigint, text, text, uuid, jsonb)
    to onceward_app, onceward_engine, onceward_sql_worker;
