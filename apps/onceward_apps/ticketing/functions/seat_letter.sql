-- Return the letter of a seat's status in the seat map.
create or replace function ticketing.seat_letter(p_status text) returns text
    language sql immutable parallel safe as $$
    select case p_status when 'available' then 'f' when 'held' then 'h' when 'sold' then 's' when 'blocked' then 'x' end
$$;
