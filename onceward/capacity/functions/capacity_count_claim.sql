-- Keep the counters of pools correct in the statement that inserts a claim, so that the check on the pool covers every path.
create or replace function onceward.capacity_count_claim() returns trigger
    language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    update onceward.capacity_pools p
    set held = p.held + case when new.state = 'held' then new.quantity else 0 end,
        sold = p.sold + case when new.state = 'sold' then new.quantity else 0 end
    where p.id = new.pool_id;
    return null;
end
$$;

comment on function onceward.capacity_count_claim() is
    'Keep the counters of pools correct in the statement that inserts a claim, so that the check on the pool covers every path.';

create or replace trigger counted_in after insert on onceward.capacity_claims
    for each row execute function onceward.capacity_count_claim();

revoke all on function onceward.capacity_count_claim() from public;
