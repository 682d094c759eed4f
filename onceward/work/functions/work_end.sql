-- Describe the end of work as its on_end hook gets it: what the work was, how it ended and why.
create or replace function onceward.work_end(a onceward.attempt) returns jsonb language plpgsql stable as $$
declare
    v_arguments jsonb;
begin
    if a.kind = 'job' then
        select j.args into v_arguments from onceward.jobs j where j.id = a.work_id;
    else
        execute format('select onceward.ended_%s($1)', a.kind) into v_arguments using a.work_id;
    end if;
    return jsonb_build_object(
        'id', a.work_id, 'task', a.task, 'arguments', coalesce(v_arguments, '{}'), 'outcome', a.outcome,
        'reason', a.error ->> 'reason', 'error', a.error ->> 'message', 'attempts', a.number + coalesce(a.earlier, 0), 'result', a.result,
        'organization', a.organization_id);
end
$$;
