-- Publish an event to every matching endpoint of the caller's organization, if and only if this transaction commits. Any language
-- may call it. The same key again returns the first event and publishes nothing. A type that nobody has declared is refused, as over
-- HTTP. It runs with the rights of its owner, so that onceward_producer needs none on the tables.
create or replace function onceward.publish(
    type text, data json, key text default null, channels text[] default null, endpoint uuid default null,
    trace text default null,
    out id bigint, out message_id text, out deliveries int, out duplicate boolean, out fingerprint bytea
) language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    if publish.type is null or publish.type !~ '^[a-z0-9_-]+(\.[a-z0-9_-]+)*$' or length(publish.type) > 128 then
        raise exception 'onceward.publish: type must be lower-case words joined by dots, not %', coalesce(publish.type, 'null')
            using errcode = '22023';
    end if;
    if publish.data is null then
        raise exception 'onceward.publish: data of % must be JSON, not null', publish.type using errcode = '22023';
    end if;
    if length(publish.data::text) > 262144 then
        raise exception 'onceward.publish: data of % has % characters, at most 262144 are allowed: send a reference instead',
            publish.type, length(publish.data::text) using errcode = '22023';
    end if;
    if publish.key = '' or length(publish.key) > 255 then
        raise exception 'onceward.publish: key must have 1 to 255 characters, not %', length(publish.key) using errcode = '22023';
    end if;
    if not exists (select from onceward.event_types e where e.name = publish.type) then
        raise exception 'onceward.publish: type % is not in the catalogue', publish.type
            using errcode = '22023', hint = 'declare it with app.event_type(...) or PUT /api/v1/event-types';
    end if;
    select w.id, w.message_id, w.deliveries, w.duplicate, w.fingerprint
      into publish.id, publish.message_id, publish.deliveries, publish.duplicate, publish.fingerprint
      from onceward.write_published(
           onceward.producing_for(), publish.type, publish.data, publish.key,
           nullif(array(select distinct c from unnest(publish.channels) c order by c), '{}'), publish.endpoint, publish.trace) w;
    if publish.deliveries > 0 and not publish.duplicate then
        perform onceward.wake_idle_workers('deliveries');
    end if;
end
$$;

revoke all on function onceward.publish(text, json, text, text[], uuid, text) from public;
grant execute on function onceward.publish(text, json, text, text[], uuid, text) to onceward_app, onceward_engine, onceward_producer;
