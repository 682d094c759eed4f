-- Mark seats as sold to these tickets, if all are in these versions and not taken; otherwise nothing changes. Return whether they are
-- sold. Seats are locked in the order of their ids. A place without a seat has null.
create or replace function ticketing.sell_seats(p_seats uuid[], p_versions int[], p_tickets uuid[]) returns boolean
    language plpgsql as $$
declare
    locked bigint;
begin
    perform 1 from ticketing.seats s
    where s.id = any (p_seats) and s.version = p_versions[array_position(p_seats, s.id)] and s.status in ('held', 'available')
    order by s.id for update;
    get diagnostics locked = row_count;
    if locked <> cardinality(array_remove(p_seats, null)) then
        return false;
    end if;
    if locked > 0 then
        update ticketing.seats s
        set status = 'sold', ticket_id = p_tickets[array_position(p_seats, s.id)], sold_at = onceward.now(), held_until = null,
            locked_at = null, seat_hold_id = null, version = s.version + 1
        where s.id = any (p_seats);
    end if;
    return true;
end
$$;

revoke all on function ticketing.sell_seats(uuid[], int[], uuid[]) from public;
grant execute on function ticketing.sell_seats(uuid[], int[], uuid[]) to onceward_app, onceward_engine;
