-- Change the capacity of a pool. Existing claims stay valid even above the new capacity; new claims wait for room.
create or replace function onceward.capacity_resize(p_key text, p_capacity bigint) returns bigint
    language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    org uuid := onceward.required_organization();
    pool onceward.capacity_pools;
begin
    select * into pool from onceward.capacity_pools
    where organization_id = org and key = p_key for no key update;
    if pool.id is null then
        return null;
    end if;
    perform onceward.capacity_reap_pools(array[pool.id], onceward.clock(), '{}');
    update onceward.capacity_pools
    set capacity = p_capacity, kept = case when held + sold > p_capacity then held + sold else 0 end
    where id = pool.id;
    if pool.group_id is not null then
        perform onceward.capacity_add_total(
            pool.group_id, org, coalesce(p_capacity, 0) - coalesce(pool.capacity, 0), 0, 0);
    end if;
    return pool.id;
end
$$;

comment on function onceward.capacity_resize(text, bigint) is
    'Change the capacity of a pool. Existing claims stay valid even above the new capacity; new claims wait for room.';

revoke all on function onceward.capacity_resize(text, bigint) from public;
grant execute on function onceward.capacity_resize(text, bigint) to onceward_app, onceward_engine;
