-- Update a workflow after the engine has settled its work. A cancelled workflow with compensations runs them first.
create or replace function onceward.settled_workflow(p_id bigint, p_outcome text, p_number int, p_result jsonb, p_error jsonb)
    returns void language plpgsql as $$
declare
    v onceward.workflows;
    v_state text;
begin
    if p_outcome in ('retry', 'snoozed', 'crashed') then
        update onceward.workflows
           set state = case when ending is null then 'running' else 'compensating' end, error = null, finished_at = null
         where id = p_id and state = 'dead_letter';
        return;
    end if;
    if p_outcome = 'cancelled' then
        update onceward.workflows w
           set ending = coalesce(w.ending, 'cancelled'), state = 'compensating',
               error = coalesce(w.error, p_error)
         where w.id = p_id and (w.ending is not null or exists (
             select from onceward.workflow_steps s
              where s.workflow_id = p_id
                and (s.kind = 'compensation' and s.state <> 'done' or s.kind = 'child' and s.state = 'waiting')))
        returning w.* into v;
        if found then
            insert into onceward.work (id, organization_id, line, kind, task, queue, sort_at)
            values (p_id, v.organization_id, onceward.line_of(v.organization_id, null), 'workflow',
                'workflow:' || v.name, 'workflows', onceward.now());
            return;
        end if;
    end if;
    v_state := case p_outcome when 'success' then 'success' when 'dead_letter' then 'dead_letter'
                              when 'cancelled' then 'cancelled' when 'discarded' then 'cancelled' else 'failed' end;
    update onceward.workflows w
       set state = v_state, error = coalesce(p_error, w.error),
           finished_at = case when p_outcome <> 'dead_letter' then onceward.now() end
     where w.id = p_id
    returning w.* into v;
    if v.parent_id is not null and p_outcome <> 'dead_letter' then
        perform onceward.workflow_tell_parent(v.parent_id, v.parent_position, v_state, null, v.error);
    end if;
end
$$;
