-- Answer the wait for this signal, or keep the signal for a later wait. 'gone': the workflow has ended.
create or replace function onceward.workflow_signal(p_id bigint, p_name text, p_payload json) returns text language plpgsql as $$
declare
    v_organization uuid;
begin
    select w.organization_id into v_organization
      from onceward.work w where w.id = p_id and w.kind = 'workflow' for update;
    if not found then
        return 'gone';
    end if;
    update onceward.workflow_steps s
       set state = 'done', result = p_payload, finished_at = clock_timestamp()
     where s.workflow_id = p_id and s.position = (
         select min(f.position) from onceward.workflow_steps f
          where f.workflow_id = p_id and f.kind = 'signal' and f.state = 'waiting' and f.name = p_name
            and (f.match is null or onceward.json_contains(p_payload, f.match)));
    if not found then
        insert into onceward.workflow_signals (workflow_id, organization_id, name, payload)
        values (p_id, v_organization, p_name, p_payload);
        return 'kept';
    end if;
    perform onceward.workflow_release(p_id);
    return 'delivered';
end
$$;
