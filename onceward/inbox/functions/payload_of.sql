-- Return the payload of an event. The body of most events is the payload: it is stored once, as bytes, and parsed here.
create or replace function onceward.payload_of(p onceward.webhook_events) returns jsonb
    language sql stable parallel safe as $$
    select case when p.payload_in_raw then convert_from(p.raw, 'UTF8')::jsonb else p.payload end
$$;

revoke all on function onceward.payload_of(onceward.webhook_events) from public;
grant execute on function onceward.payload_of(onceward.webhook_events) to onceward_app, onceward_engine,
    onceward_sql_worker, onceward_organization_worker;
