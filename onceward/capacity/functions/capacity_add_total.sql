-- Add to the totals of a group, in the row of this session. 64 rows: sessions with the same row wait for each other.
create or replace function onceward.capacity_add_total(
    p_group bigint, p_organization uuid, p_capacity bigint, p_held bigint, p_sold bigint) returns void
    language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
    update onceward.capacity_totals
    set capacity = capacity + p_capacity, held = held + p_held, sold = sold + p_sold
    where group_id = p_group and stripe = pg_backend_pid() % 64;
    if not found then
        insert into onceward.capacity_totals as t (group_id, stripe, organization_id, capacity, held, sold)
        values (p_group, pg_backend_pid() % 64, p_organization, p_capacity, p_held, p_sold)
        on conflict (group_id, stripe) do update
            set capacity = t.capacity + excluded.capacity, held = t.held + excluded.held, sold = t.sold + excluded.sold;
    end if;
end
$$;

comment on function onceward.capacity_add_total(bigint, uuid, bigint, bigint, bigint) is
    'Add to the totals of a group, in the row of this session. 64 rows: sessions with the same row wait for each other.';

revoke all on function onceward.capacity_add_total(bigint, uuid, bigint, bigint, bigint) from public;
