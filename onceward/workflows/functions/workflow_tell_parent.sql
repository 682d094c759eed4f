-- Record the result of a finished child as the answer of its parent's step.
create or replace function onceward.workflow_tell_parent(p_parent bigint, p_position int, p_state text, p_result json, p_error jsonb)
    returns void language plpgsql as $$
begin
    perform from onceward.work w where w.id = p_parent for update;
    update onceward.workflow_steps
       set state = case when p_state = 'success' then 'done' else 'failed' end, result = p_result,
           error = case when p_state <> 'success' then
                       coalesce(p_error, jsonb_build_object('type', 'ChildEnded', 'message', 'the child workflow ended as ' || p_state))
                   end,
           finished_at = clock_timestamp()
     where workflow_id = p_parent and position = p_position and state = 'waiting';
    perform onceward.workflow_release(p_parent);
end
$$;
