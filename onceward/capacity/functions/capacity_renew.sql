-- Extend these claims, or sell them if no time is given, all or none. An expired claim is taken again if there is still
-- room. The plans are made once, and use indexes: by default PostgreSQL plans a statement with an array in every call.
create or replace function onceward.capacity_renew(
    p_ids bigint[], p_until timestamptz default null, p_for interval default null,
    out until timestamptz, out refusals jsonb)
    language plpgsql security definer set search_path = pg_catalog, pg_temp
    set plan_cache_mode = force_generic_plan set enable_seqscan = off as $$
declare
    org uuid := onceward.required_organization();
    moment timestamptz;
    locked bigint[];
    known bigint;
    is_released boolean;
    is_expired boolean;
begin
    select array_agg(l.id) into locked
    from (
        select p.id from onceward.capacity_pools p
        where p.organization_id = org
          and p.id in (select c.pool_id from onceward.capacity_claims c where c.id = any (p_ids))
        order by p.id for no key update
    ) l;
    moment := onceward.clock();
    until := coalesce(p_until, moment + p_for);
    if until <= moment then
        raise exception 'a hold until % would have ended already: it is %', until, moment using errcode = 'OW003';
    end if;

    select count(*), bool_or(c.state = 'released'), bool_or(c.state = 'expired') into known, is_released, is_expired
    from onceward.capacity_claims c where c.id = any (p_ids) and c.organization_id = org;
    if known <> cardinality(p_ids) or is_released then
        refusals := (
            select jsonb_agg(jsonb_build_object('claim', w.id, 'pool', p.key, 'unit', c.unit, 'reason',
                       case when c.id is null then 'unknown claim' else 'released' end))
            from unnest(p_ids) as w (id)
            left join onceward.capacity_claims c on c.id = w.id and c.organization_id = org
            left join onceward.capacity_pools p on p.id = c.pool_id
            where c.id is null or c.state = 'released'
        );
        if refusals is not null then
            return;
        end if;
    end if;

    -- The caller's expired holds that were not reaped still count as its own; only the reaped ones need room.
    if is_expired then
        perform onceward.capacity_reap_pools(locked, moment, p_ids);
        refusals := (
            select onceward.capacity_judge(array_agg(c.pool_id), array_agg(c.unit), array_agg(c.quantity))
            from onceward.capacity_claims c
            where c.id = any (p_ids) and c.state = 'expired'
        );
        if refusals is not null then
            return;
        end if;
    end if;
    update onceward.capacity_claims c
    set state = case when until is null then 'sold' else 'held' end,
        expires_at = case when until is null then null else greatest(c.expires_at, until) end,
        ended_at = null
    where c.id = any (p_ids) and c.state <> 'sold';
end
$$;

comment on function onceward.capacity_renew(bigint[], timestamptz, interval) is
    'Extend these claims, or sell them if no time is given, all or none. An expired claim is taken again if there is still room.';

revoke all on function onceward.capacity_renew(bigint[], timestamptz, interval) from public;
grant execute on function onceward.capacity_renew(bigint[], timestamptz, interval) to onceward_app, onceward_engine;
