-- Claim all of these or none: held until a time, or sold if no time is given. A refusal writes nothing.
create or replace function onceward.capacity_claim(
    p_pools text[], p_units text[], p_quantities bigint[], p_holder text,
    p_until timestamptz default null, p_for interval default null,
    out ids bigint[], out until timestamptz, out refusals jsonb)
    language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    org uuid := onceward.required_organization();
    moment timestamptz;
    pool onceward.capacity_pools;
    claimed bigint;
begin
    if cardinality(p_pools) > 1 or p_units[1] is not null then
        select c.ids, c.until, c.refusals into ids, until, refusals
        from onceward.capacity_claim_several(org, p_pools, p_units, p_quantities, p_holder, p_until, p_for) c;
        return;
    end if;
    -- Many buyers want places of one pool at the same moment, so this path runs as few statements under the lock as possible.
    select * into pool from onceward.capacity_pools p
    where p.organization_id = org and p.key = p_pools[1] for no key update;
    -- Read after the lock: a buyer who waited compares expiry with the time at which the lock was granted.
    moment := onceward.clock();
    until := coalesce(p_until, moment + p_for);
    if pool.id is null or pool.named or until <= moment
       or pool.held + pool.sold + p_quantities[1] > pool.capacity then
        -- Either expired holds block the claim, or it is refused: the long path reaps and returns the reason.
        select c.ids, c.until, c.refusals into ids, until, refusals
        from onceward.capacity_claim_several(org, p_pools, p_units, p_quantities, p_holder, p_until, p_for) c;
        return;
    end if;
    insert into onceward.capacity_claims
        (organization_id, pool_id, group_id, quantity, holder, state, expires_at, claimed_at, caused_by)
    values (org, pool.id, pool.group_id, p_quantities[1], p_holder, case when until is null then 'sold' else 'held' end,
            until, moment, onceward.cause())
    returning id into claimed;
    ids := array[claimed];
end
$$;

comment on function onceward.capacity_claim(text[], text[], bigint[], text, timestamptz, interval) is
    'Claim all of these or none: held until a time, or sold if no time is given. A refusal writes nothing.';

revoke all on function onceward.capacity_claim(text[], text[], bigint[], text, timestamptz, interval) from public;
grant execute on function onceward.capacity_claim(text[], text[], bigint[], text, timestamptz, interval) to onceward_app, onceward_engine;
