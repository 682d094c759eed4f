-- Give a side effect the organization of its event.
create or replace function clinic.fill_side_effect() returns trigger
    language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
-- Give the row the organization of its event. An event id of several organizations leaves it empty: nothing is guessed.
begin
    select min(e.organization_id::text)::uuid into new.organization_id from onceward.webhook_events e
     where e.event_id = new.event_id
    having count(distinct e.organization_id) = 1 and bool_and(e.organization_id is not null);
    return new;
end
$$;
revoke all on function clinic.fill_side_effect() from public;
create or replace trigger fill_side_effect before insert on clinic.webhook_side_effects
    for each row execute function clinic.fill_side_effect();
