-- Return the ids of the events that have this id at their sender, of the current organization if there is one.
-- The unique index begins with the event id, so that no sender needs to be known. It runs with the rights of the owner, because events of
-- the organization may have come through a source that belongs to nobody.
create or replace function onceward.events_named(p_event_id text) returns setof bigint
    language sql stable security definer set search_path = pg_catalog, pg_temp rows 2 as $$
    select e.seq from onceward.webhook_events e
     where e.event_id = p_event_id and (onceward.organization() is null or e.organization_id = onceward.organization())
     order by e.seq desc limit 100
$$;

revoke all on function onceward.events_named(text) from public;
grant execute on function onceward.events_named(text) to onceward_app, onceward_engine;

comment on function onceward.events_named(text) is
    'Return the ids of the events that have this id at their sender, of the current organization if there is one. '
     'The unique index begins with the event id, so that no sender needs to be known. '
     'It runs with the rights of the owner, because events of the organization may have come through a source that belongs to nobody.';
