-- End expired holds of all organizations. Correctness does not depend on it; it keeps claims from meeting many expired
-- holds.
create or replace function onceward.capacity_reap(p_pools bigint default 100) returns bigint
    language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    moment timestamptz := onceward.clock();
    locked bigint[];
begin
    -- Skips pools that a claim has locked: the claim reaps them itself.
    select array_agg(l.id) into locked
    from (
        select p.id from onceward.capacity_pools p
        where p.id in (select c.pool_id from onceward.capacity_claims c
                       where c.state = 'held' and c.expires_at <= moment
                       order by c.expires_at limit p_pools)
        order by p.id for no key update skip locked
    ) l;
    if locked is null then
        return 0;
    end if;
    return onceward.capacity_reap_pools(locked, moment, '{}');
end
$$;

comment on function onceward.capacity_reap(bigint) is
    'End expired holds of all organizations. Correctness does not depend on it; it keeps claims from meeting many expired holds.';

revoke all on function onceward.capacity_reap(bigint) from public;
grant execute on function onceward.capacity_reap(bigint) to onceward_engine;
