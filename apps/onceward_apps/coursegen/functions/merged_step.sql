-- Return one step after an update. A completed step stays as it is and only gains metadata.
create or replace function coursegen.merged_step(
    p_step jsonb, p_status text, p_message text, p_error text, p_details jsonb, p_metadata jsonb
) returns jsonb language plpgsql stable set search_path = pg_catalog, pg_temp as $$
declare
    v_time jsonb := to_jsonb(onceward.now());
begin
    p_step := p_step || jsonb_build_object('metadata', coalesce(p_step -> 'metadata', '{}') || p_metadata);
    if p_step ->> 'status' = 'completed' and p_status <> 'completed' then
        return p_step;
    end if;
    p_step := p_step || jsonb_build_object('status', p_status, 'message', coalesce(p_message, p_step ->> 'message'));
    if p_status = 'in_progress' and coalesce(p_step -> 'started_at', 'null') = 'null' then
        p_step := p_step || jsonb_build_object('started_at', v_time);
    elsif p_status = 'completed' and coalesce(p_step -> 'completed_at', 'null') = 'null' then
        p_step := p_step || jsonb_build_object('completed_at', v_time);
    end if;
    if p_error is not null then
        return p_step || jsonb_build_object('error', p_error, 'error_details', coalesce(p_details, '{}'));
    elsif p_status in ('in_progress', 'completed') then
        return p_step || '{"error": null, "error_details": null}';
    end if;
    return p_step;
end
$$;
revoke all on function coursegen.merged_step(jsonb, text, text, text, jsonb, jsonb) from public;
