-- Keep the counters of pools correct in the statement that inserts a claim, so that the check on the pool covers every path.
create or replace function onceward.capacity_count_claim() returns trigger
    language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    more_held bigint := case when new.state = 'held' then new.quantity else 0 end;
    more_sold bigint := case when new.state = 'sold' then new.quantity else 0 end;
begin
    update onceward.capacity_pools p set held = p.held + more_held, sold = p.sold + more_sold where p.id = new.pool_id;
    if new.group_id is not null then
        perform onceward.capacity_add_total(new.group_id, new.organization_id, 0, more_held, more_sold);
    end if;
    return null;
end
$$;

comment on function onceward.capacity_count_claim() is
    'Keep the counters of pools correct in the statement that inserts a claim, so that the check on the pool covers every path.';

create or replace trigger counted_in after insert on onceward.capacity_claims
    for each row execute function onceward.capacity_count_claim();

revoke all on function onceward.capacity_count_claim() from public;
