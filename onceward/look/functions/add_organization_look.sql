-- Every organization has a row in organization_looks, so that a change of its look can lock it.
create or replace function onceward.add_organization_look() returns trigger
    language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
    insert into onceward.organization_looks (organization_id) values (new.organization_id) on conflict do nothing;
    return null;
end
$$;

create or replace trigger add_look after insert on onceward.organizations
    for each row execute function onceward.add_organization_look();

revoke all on function onceward.add_organization_look() from public;
