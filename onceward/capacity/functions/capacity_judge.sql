-- Return why these requests cannot be met now and until when, or null if they can. The caller has locked and reaped the
-- pools.
create or replace function onceward.capacity_judge(p_pools bigint[], p_units text[], p_quantities bigint[]) returns jsonb
    language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
    return (with wants as (
        select * from unnest(p_pools, p_units, p_quantities) as w (pool_id, unit, quantity)
    ), asked as (
        select pool_id, sum(quantity) as quantity from wants group by pool_id
    ), full_pools as (
        select p.id, p.key, a.quantity, greatest(p.capacity - p.held - p.sold, 0) as free, p.capacity
        from asked a join onceward.capacity_pools p on p.id = a.pool_id
        where p.capacity is not null and p.held + p.sold + a.quantity > p.capacity
    ), reasons as (
        select 1 as rank, f.key, null::text as unit, case when f.capacity = 0 then 'closed' else 'full' end as reason,
               f.quantity as wanted, f.free,
               case when f.quantity <= f.capacity then (
                   -- At most as many holds must end as places are missing, because each frees one or more.
                   select min(expires_at) from (
                       select h.expires_at, sum(h.quantity) over (order by h.expires_at, h.id) as freed
                       from (
                           select id, expires_at, quantity from onceward.capacity_claims
                           where pool_id = f.id and state = 'held'
                           order by expires_at, id
                           limit least(f.quantity - f.free, 1000)
                       ) h
                   ) x
                   where freed >= f.quantity - f.free
               ) end as until
        from full_pools f
        union all
        select 2, p.key, w.unit, 'taken', 1, 0, case when c.state = 'held' then c.expires_at end
        from wants w
        join onceward.capacity_claims c
            on c.pool_id = w.pool_id and c.unit = w.unit and c.unit is not null and c.state in ('held', 'sold')
        join onceward.capacity_pools p on p.id = w.pool_id
    )
    select jsonb_agg(jsonb_build_object('pool', key, 'unit', unit, 'reason', reason, 'wanted', wanted,
                                        'free', free, 'until', until) order by rank, key, unit)
    from reasons);
end
$$;

comment on function onceward.capacity_judge(bigint[], text[], bigint[]) is
    'Return why these requests cannot be met now and until when, or null if they can. The caller has locked and reaped the pools.';

revoke all on function onceward.capacity_judge(bigint[], text[], bigint[]) from public;
