-- Claim units, or places of several pools, all or none. Reap expired holds first, and return why a claim is refused.
create or replace function onceward.capacity_claim_several(
    p_organization uuid, p_pools text[], p_units text[], p_quantities bigint[], p_holder text,
    p_until timestamptz, p_for interval,
    out ids bigint[], out until timestamptz, out refusals jsonb)
    language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
    moment timestamptz;
    locked bigint[];
    pools bigint[];
    groups bigint[];
    own bigint[];
    mistakes jsonb;
begin
    -- Pools are always locked in order of their ids.
    select array_agg(l.id) into locked
    from (
        select p.id from onceward.capacity_pools p
        where p.organization_id = p_organization and p.key = any (p_pools)
        order by p.id for no key update
    ) l;
    moment := onceward.clock();
    until := coalesce(p_until, moment + p_for);
    if until <= moment then
        raise exception 'a hold until % would have ended already: it is %', until, moment using errcode = 'OW003';
    end if;

    select array_agg(p.id order by w.n), array_agg(p.group_id order by w.n), array_agg(c.id order by w.n),
           jsonb_agg(jsonb_build_object('pool', w.key, 'unit', w.unit, 'reason',
               case when p.id is null then 'unknown pool' when w.unit is null then 'unit missing' else 'unknown unit' end)
               order by w.n)
               filter (where p.id is null or (p.named and u.unit is null) or (w.unit is not null and u.unit is null))
    into pools, groups, own, mistakes
    from unnest(p_pools, p_units) with ordinality as w (key, unit, n)
    left join onceward.capacity_pools p on p.organization_id = p_organization and p.key = w.key
    left join onceward.capacity_units u on u.pool_id = p.id and u.unit = w.unit
    left join onceward.capacity_claims c
        on c.pool_id = p.id and c.unit = w.unit and c.unit is not null and c.holder = p_holder
        and (c.state = 'sold' or (c.state = 'held' and c.expires_at > moment));
    if mistakes is not null then
        refusals := mistakes;
        return;
    end if;

    perform onceward.capacity_reap_pools(locked, moment, '{}');
    refusals := (
        select onceward.capacity_judge(array_agg(w.pool), array_agg(w.unit), array_agg(w.quantity))
        from unnest(pools, p_units, p_quantities, own) as w (pool, unit, quantity, own)
        where w.own is null
    );
    if refusals is not null then
        return;
    end if;

    if array_remove(own, null) <> '{}' then
        update onceward.capacity_claims c
        set expires_at = case when until is null then null else greatest(c.expires_at, until) end,
            state = case when until is null then 'sold' else 'held' end
        where c.id = any (own) and c.state = 'held';
    end if;
    with made as (
        insert into onceward.capacity_claims
            (organization_id, pool_id, group_id, unit, quantity, holder, state, expires_at, claimed_at, caused_by)
        select p_organization, w.pool, w.group_id, w.unit, w.quantity, p_holder,
               case when until is null then 'sold' else 'held' end, until, moment, onceward.cause()
        from unnest(pools, groups, p_units, p_quantities, own) as w (pool, group_id, unit, quantity, own)
        where w.own is null
        returning id
    )
    select coalesce(array_agg(id order by id), '{}') || array_remove(own, null) into ids from made;
end
$$;

revoke all on function onceward.capacity_claim_several(uuid, text[], text[], bigint[], text, timestamptz, interval) from public;
