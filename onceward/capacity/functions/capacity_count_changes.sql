-- Keep the counters of pools correct when claims change. Expiry changes a thousand claims in one statement.
create or replace function onceward.capacity_count_changes() returns trigger
    language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    change record;
begin
    update onceward.capacity_pools p
    set held = p.held + d.held,
        sold = p.sold + d.sold,
        kept = least(p.kept, p.held + d.held + p.sold + d.sold)
    from (
        select pool_id,
               coalesce(sum(quantity) filter (where state = 'held'), 0) as held,
               coalesce(sum(quantity) filter (where state = 'sold'), 0) as sold
        from (
            select pool_id, state, quantity from became
            union all
            select pool_id, state, -quantity from was
        ) changes
        group by pool_id
    ) d
    where p.id = d.pool_id and (d.held <> 0 or d.sold <> 0);
    -- In the order of the groups: two sessions with the same row of several groups must not deadlock.
    for change in
        select group_id, organization_id,
               coalesce(sum(quantity) filter (where state = 'held'), 0) as held,
               coalesce(sum(quantity) filter (where state = 'sold'), 0) as sold
        from (
            select group_id, organization_id, state, quantity from became where group_id is not null
            union all
            select group_id, organization_id, state, -quantity from was where group_id is not null
        ) changes
        group by group_id, organization_id
        order by group_id
    loop
        if change.held <> 0 or change.sold <> 0 then
            perform onceward.capacity_add_total(
                change.group_id, change.organization_id, 0, change.held::bigint, change.sold::bigint);
        end if;
    end loop;
    return null;
end
$$;

comment on function onceward.capacity_count_changes() is
    'Keep the counters of pools correct when claims change. Expiry changes a thousand claims in one statement.';

create or replace trigger counted_over after update on onceward.capacity_claims
    referencing old table as was new table as became for each statement execute function onceward.capacity_count_changes();

revoke all on function onceward.capacity_count_changes() from public;
