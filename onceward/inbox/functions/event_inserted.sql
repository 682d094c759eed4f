-- Queue an event that a plain INSERT has created, or end it if it was inserted as a dead letter.
create or replace function onceward.event_inserted() returns trigger
    language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    if new.status = 'pending' then
        perform onceward.queue_event(new, new.attempts);
    elsif new.status = 'dead_letter' then
        perform onceward.end_event(new);
    end if;
    return null;
end
$$;

revoke all on function onceward.event_inserted() from public;

create or replace trigger inserted after insert on onceward.webhook_events
    for each row when (new.origin = 'sql') execute function onceward.event_inserted();
