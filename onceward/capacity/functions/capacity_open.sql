-- Create a pool. Null: the key is taken.
create or replace function onceward.capacity_open(p_key text, p_capacity bigint, p_units text[] default null) returns bigint
    language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    org uuid := onceward.required_organization();
    pool bigint;
begin
    insert into onceward.capacity_pools (organization_id, key, capacity, named, caused_by)
    values (org, p_key, p_capacity, p_units is not null, onceward.cause())
    on conflict (organization_id, key) do nothing
    returning id into pool;
    if pool is not null then
        insert into onceward.capacity_units (pool_id, unit, organization_id)
        select pool, u, org from unnest(p_units) as u;
    end if;
    return pool;
end
$$;

comment on function onceward.capacity_open(text, bigint, text[]) is
    'Create a pool. Null: the key is taken.';
revoke all on function onceward.capacity_open(text, bigint, text[]) from public;

grant execute on function onceward.capacity_open(text, bigint, text[]) to onceward_app, onceward_engine;
