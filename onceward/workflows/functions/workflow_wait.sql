-- Take the oldest signal of this name that contains p_match, or record that the workflow waits for one. 'lost': the lease was
-- lost. 'lacking': the history lacks a step that the run relies on.
create or replace function onceward.workflow_wait(
    p_id bigint, p_lease bigint, p_position int, p_key text, p_name text, p_match jsonb, p_timeout_s float8,
    p_required int[], p_finished boolean[],
    out state text, out result text, out due_at timestamptz
) language plpgsql as $$
declare
    v_organization uuid;
    v_due timestamptz := onceward.now() + make_interval(secs => p_timeout_s);   -- null: no timeout
begin
    select w.organization_id into v_organization
      from onceward.work w where w.id = p_id and w.lease = p_lease for update;
    if not found then
        state := 'lost';
        return;
    end if;
    if onceward.workflow_lacks(p_id, p_required, p_finished) then
        state := 'lacking';
        return;
    end if;
    delete from onceward.workflow_signals s
     where s.id = (select f.id from onceward.workflow_signals f
                    where f.workflow_id = p_id and f.name = p_name
                      and (p_match is null or onceward.json_contains(f.payload, p_match))
                    order by f.id limit 1)
    returning s.payload::text into result;
    state := case when found then 'done' else 'waiting' end;
    due_at := v_due;
    insert into onceward.workflow_steps
        (workflow_id, position, organization_id, kind, key, name, state, result, due_at, match, started_at, finished_at)
    values (p_id, p_position, v_organization, 'signal', p_key, p_name, workflow_wait.state, workflow_wait.result::json, v_due,
            p_match, clock_timestamp(), case when workflow_wait.state = 'done' then clock_timestamp() end);
end
$$;
