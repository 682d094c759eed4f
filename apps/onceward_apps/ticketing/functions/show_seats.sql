-- Keep the rows of the seat map in step with their seats. The live seat map depends only on the rows, so a row is also written
-- when another hold takes a held seat, or when a hold is extended after its time: the map had shown the seat as free.
create or replace function ticketing.show_seats() returns trigger
    language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    changed record;
begin
    -- One row after the other, in the order of the pools: transactions with seats in the same rows must not deadlock.
    for changed in
        select b.pool_id, array_agg(b.number) as numbers, array_agg(ticketing.seat_letter(b.status)) as letters
        from became b join was w on w.id = b.id
        where b.status <> w.status or b.seat_hold_id is distinct from w.seat_hold_id
           or (b.status = 'held' and b.held_until > w.held_until and w.held_until <= onceward.clock())
        group by b.pool_id
        order by b.pool_id
    loop
        update ticketing.pools
        set states = ticketing.put_letters(states, changed.numbers, changed.letters)
        where pool_id = changed.pool_id;
    end loop;
    return null;
end
$$;

create or replace trigger show_seats after update on ticketing.seats
    referencing old table as was new table as became for each statement execute function ticketing.show_seats();

revoke all on function ticketing.show_seats() from public;
