-- Fill in the columns that a plain INSERT of an event leaves out.
create or replace function onceward.fill_event() returns trigger
    language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    v_source onceward.sources;
begin
    select * into v_source from onceward.sources s where s.webhook_id = new.webhook_id;
    if not found then
        select * into v_source from onceward.sources s where s.name = 'sql';
    end if;
    new.provider := v_source.provider;
    new.organization_id := coalesce(new.organization_id, v_source.organization_id, onceward.organization());
    new.type := coalesce(new.type, left(coalesce(new.payload ->> 'type', new.payload ->> 'event', new.payload ->> 'event_type'), 200),
                         'unknown');
    new.caused_by := coalesce(new.caused_by, onceward.cause());
    if new.status = 'processing' then
        new.status := 'pending';           -- an INSERT cannot claim the event
    end if;
    return new;
end
$$;

revoke all on function onceward.fill_event() from public;

create or replace trigger fill before insert on onceward.webhook_events
    for each row when (new.origin = 'sql') execute function onceward.fill_event();
