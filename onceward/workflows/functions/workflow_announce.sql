-- Answer every workflow of this organization that waits for an event of this name and content. Without a waiting workflow,
-- nothing is kept.
create or replace function onceward.workflow_announce(p_name text, p_payload json) returns bigint[] language plpgsql as $$
declare
    v record;
    v_told bigint[] := '{}';
begin
    for v in
        select s.workflow_id, s.position from onceward.workflow_steps s
         where s.kind = 'signal' and s.state = 'waiting' and s.name = p_name and s.match is not null
           and s.organization_id is not distinct from onceward.organization() and p_payload::jsonb @> s.match
         order by s.workflow_id, s.position
    loop
        perform from onceward.work w where w.id = v.workflow_id for update;
        update onceward.workflow_steps s
           set state = 'done', result = p_payload, finished_at = clock_timestamp()
         where s.workflow_id = v.workflow_id and s.position = v.position and s.state = 'waiting';
        if found then
            perform onceward.workflow_release(v.workflow_id);
            v_told := v_told || v.workflow_id;
        end if;
    end loop;
    return v_told;
end
$$;
