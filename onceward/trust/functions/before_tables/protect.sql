-- Make a table with organization_id visible only to its organization. Every migration of a tenant table calls this function.
create or replace function onceward.protect(target regclass) returns void
    language plpgsql as $$
begin
    execute format('alter table %s enable row level security', target);
    execute format(
        'create policy own_rows on %s for all to onceward_app
            using (organization_id is not distinct from (select onceward.organization()))
            with check (organization_id is not distinct from (select onceward.organization()))', target);
    execute format('create policy engine on %s for all to onceward_engine using (true) with check (true)', target);
    execute format('grant select, insert, update, delete on %s to onceward_app, onceward_engine', target);
end
$$;

comment on function onceward.protect(regclass) is
    'Make a table with organization_id visible only to its organization. Every migration of a tenant table calls this function.';

revoke all on function onceward.protect(regclass) from public;
