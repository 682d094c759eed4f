-- End this history and start the next one in its place, with the same key, attributes, parent and unread signals. Null: the
-- lease was lost, or the history lacks a step that the run relies on.
create or replace function onceward.workflow_continue(
    p_id bigint, p_lease bigint, p_worker bigint, p_started timestamptz, p_args json, p_version text,
    p_required int[], p_finished boolean[]
) returns bigint language plpgsql as $$
declare
    v onceward.workflows;
    v_new bigint;
begin
    perform from onceward.work w where w.id = p_id and w.lease = p_lease for update;
    if not found or onceward.workflow_lacks(p_id, p_required, p_finished) then
        return null;
    end if;
    select * into v from onceward.workflows w where w.id = p_id;
    update onceward.workflows set key = null, parent_id = null, parent_position = null where id = p_id;
    select s.id into v_new from onceward.start_workflow(
        v.name, p_args, v.key, p_version, v.attributes, null, v.parent_id, v.parent_position, v.organization_id, p_id) s;
    update onceward.workflow_signals set workflow_id = v_new where workflow_id = p_id;
    update onceward.workflow_steps set ref = v_new where workflow_id = v.parent_id and position = v.parent_position;
    perform onceward.settle(p_id, p_lease, p_worker, 'success', p_started, jsonb_build_object('continued_as', v_new));
    update onceward.workflows set state = 'continued', result = json_build_object('continued_as', v_new) where id = p_id;
    return v_new;
end
$$;
