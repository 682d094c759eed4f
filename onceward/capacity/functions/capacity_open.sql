-- Create a pool, and its group if there is none. Null: the key is taken.
create or replace function onceward.capacity_open(
    p_key text, p_capacity bigint, p_units text[] default null, p_group text default null) returns bigint
    language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    org uuid := onceward.required_organization();
    group_of bigint;
    pool bigint;
begin
    if p_group is not null then
        insert into onceward.capacity_groups (organization_id, key) values (org, p_group)
        on conflict (organization_id, key) do nothing;
        select id into group_of from onceward.capacity_groups where organization_id = org and key = p_group;
    end if;
    insert into onceward.capacity_pools (organization_id, key, capacity, named, group_id, caused_by)
    values (org, p_key, p_capacity, p_units is not null, group_of, onceward.cause())
    on conflict (organization_id, key) do nothing
    returning id into pool;
    if pool is not null then
        insert into onceward.capacity_units (pool_id, unit, organization_id)
        select pool, u, org from unnest(p_units) as u;
        if group_of is not null then
            perform onceward.capacity_add_total(group_of, org, coalesce(p_capacity, 0), 0, 0);
        end if;
    end if;
    return pool;
end
$$;

comment on function onceward.capacity_open(text, bigint, text[], text) is
    'Create a pool, and its group if there is none. Null: the key is taken.';
revoke all on function onceward.capacity_open(text, bigint, text[], text) from public;

grant execute on function onceward.capacity_open(text, bigint, text[], text) to onceward_app, onceward_engine;
