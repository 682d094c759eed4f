-- Set one of the five steps and return the progress. The same call twice changes nothing the second time.
-- Percentage and current step never fall, and a completed step stays completed, in whatever order calls arrive.
create or replace function public.update_course_progress(
    p_course_id uuid,
    p_step_id integer,
    p_status text,
    p_message text,
    p_error_message text default null,
    p_error_details jsonb default null,
    p_metadata jsonb default '{}'::jsonb
) returns jsonb language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    v_progress jsonb;
    v_organization uuid := onceward.organization();
    -- The engine, and an owner who typed this into psql, act for every organization; everybody else for one.
    v_everything boolean := current_setting('role') = 'onceward_engine'
        or (current_setting('role') = 'none' and pg_has_role(session_user, 'onceward_engine', 'member'));
    v_percentage int;
begin
    if p_step_id is null or p_step_id not between 1 and 5 then
        raise exception 'Invalid step_id: %. Must be 1-5', coalesce(p_step_id::text, 'null') using errcode = '22023';
    end if;
    if p_status is null or p_status not in ('pending', 'in_progress', 'completed', 'failed') then
        raise exception 'Invalid status: %. Must be pending|in_progress|completed|failed', coalesce(p_status, 'null')
            using errcode = '22023';
    end if;
    p_metadata := coalesce(p_metadata, '{}');
    if jsonb_typeof(p_metadata) <> 'object' then
        raise exception 'Invalid metadata: %. Must be a JSON object', jsonb_typeof(p_metadata) using errcode = '22023';
    end if;
    if coalesce(length(p_message), 0) + coalesce(length(p_error_message), 0) > 10000
       or pg_column_size(p_metadata) + coalesce(pg_column_size(p_error_details), 0) > 65536 then
        raise exception 'message, error or metadata is too long: at most 10000 characters and 64 KiB' using errcode = '22023';
    end if;

    select c.generation_progress into v_progress from coursegen.courses c
     where c.id = p_course_id
       and (c.organization_id = v_organization or (v_everything and v_organization is null))
       for update;
    if not found then
        raise exception 'Unknown course: %', coalesce(p_course_id::text, 'null')
            using errcode = 'no_data_found', hint = 'It does not exist, or belongs to another organization than onceward.organization.';
    end if;
    if v_progress is null or jsonb_typeof(v_progress -> 'steps') is distinct from 'array'
       or jsonb_array_length(v_progress -> 'steps') <> 5 then
        v_progress := coursegen.fresh_progress();
    end if;

    v_percentage := case p_status when 'completed' then p_step_id * 20
                                  when 'in_progress' then (p_step_id - 1) * 20 + 10
                                  else (p_step_id - 1) * 20 end;
    v_progress := jsonb_set(v_progress, array['steps', (p_step_id - 1)::text], coursegen.merged_step(
        v_progress -> 'steps' -> (p_step_id - 1), p_status, p_message, p_error_message, p_error_details, p_metadata));
    v_progress := v_progress || jsonb_build_object(
        'percentage', greatest((v_progress ->> 'percentage')::int, v_percentage),
        'current_step', greatest((v_progress ->> 'current_step')::int, p_step_id));
    update coursegen.courses c
       set generation_progress = v_progress, last_progress_update = onceward.now(), updated_at = onceward.now()
     where c.id = p_course_id;
    return v_progress;
end
$$;
comment on function public.update_course_progress(uuid, integer, text, text, text, jsonb, jsonb) is
    'Set a step of a course and return its progress. Set onceward.organization first, or log in as a role that has it set.';
revoke all on function public.update_course_progress(uuid, integer, text, text, text, jsonb, jsonb) from public;
grant execute on function public.update_course_progress(uuid, integer, text, text, text, jsonb, jsonb)
    to onceward_app, onceward_engine, onceward_sql_worker;
