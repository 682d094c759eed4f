-- Return how many places of an event are for sale, held and sold. Seats that the organizer blocked are none of them, although their
-- claims count as sold. Holds past their time do not count as held.
create or replace function ticketing.occupancy(p_event uuid, out capacity bigint, out held bigint, out sold bigint)
    language plpgsql stable as $$
begin
    select t.capacity - e.blocked, t.held, t.sold - e.blocked into capacity, held, sold
    from ticketing.events e cross join lateral onceward.capacity_total(e.organization_id, 'ticketing:' || e.id) t
    where e.id = p_event;
end
$$;

revoke all on function ticketing.occupancy(uuid) from public;
grant execute on function ticketing.occupancy(uuid) to onceward_app, onceward_engine;
