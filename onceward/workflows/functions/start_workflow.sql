-- Start a workflow in the caller's transaction, or return the one that already has its key.
create or replace function onceward.start_workflow(
    p_name text, p_args json, p_key text default null, p_version text default '', p_attributes jsonb default null,
    p_run_at timestamptz default null, p_parent bigint default null, p_position int default null,
    p_organization uuid default onceward.organization(), p_caused_by bigint default onceward.cause(),
    out id bigint, out duplicate boolean
) language plpgsql as $$
declare
    v_owner uuid := coalesce(p_organization, '00000000-0000-0000-0000-000000000000');
begin
    duplicate := false;
    id := nextval('onceward.ids');
    insert into onceward.workflows
        (id, organization_id, name, key, version, args, attributes, caused_by, parent_id, parent_position)
    values (start_workflow.id, p_organization, p_name, p_key, p_version, p_args, p_attributes, p_caused_by, p_parent, p_position)
    on conflict (coalesce(organization_id, '00000000-0000-0000-0000-000000000000'::uuid), name, key) where key is not null
    do nothing;
    if not found then
        duplicate := true;
        select w.id into id from onceward.workflows w
         where coalesce(w.organization_id, '00000000-0000-0000-0000-000000000000'::uuid) = v_owner
           and w.name = p_name and w.key = p_key;
        return;
    end if;
    insert into onceward.work (id, organization_id, line, kind, task, queue, sort_at)
    values (start_workflow.id, p_organization, onceward.line_of(p_organization, null), 'workflow',
        'workflow:' || p_name, 'workflows', coalesce(p_run_at, onceward.now()));
end
$$;
