-- Publish an event to every matching endpoint of the current organization, if and only if this transaction commits.
-- The same key again returns the first event and publishes nothing.
create or replace function onceward.publish(
    type text, data json, key text default null, channels text[] default null, endpoint uuid default null,
    trace text default null,
    out id bigint, out message_id text, out deliveries int, out duplicate boolean, out fingerprint bytea
) language plpgsql as $$
#variable_conflict use_column
declare
    v_organization uuid := onceward.organization();
    v_fingerprint bytea := sha256(convert_to(
        publish.type || E'\n' || coalesce(array_to_string(publish.channels, ','), '') || E'\n' || publish.data::text, 'UTF8'));
begin
    if publish.type is null or publish.type !~ '^[a-z0-9_-]+(\.[a-z0-9_-]+)*$' or length(publish.type) > 128 then
        raise exception 'onceward.publish: type must be lower-case words joined by dots, not %', coalesce(publish.type, 'null')
            using errcode = '22023';
    end if;
    if publish.data is null then
        raise exception 'onceward.publish: data of % must be JSON, not null', publish.type using errcode = '22023';
    end if;
    publish.id := nextval('onceward.ids');
    publish.message_id := 'msg_' || replace(gen_random_uuid()::text, '-', '');
    publish.fingerprint := v_fingerprint;
    publish.duplicate := false;
    insert into onceward.published as p (id, organization_id, message_id, type, key, fingerprint, channels, body, caused_by, trace)
    values (publish.id, v_organization, publish.message_id, publish.type, publish.key, v_fingerprint, publish.channels,
            convert_to(format('{"id":"%s","type":"%s","event":"%s","timestamp":"%s","data":%s}',
                              publish.message_id, publish.type, publish.type,
                              to_char(onceward.now() at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'),
                              publish.data::text), 'UTF8'),
            onceward.cause(), publish.trace)
    on conflict (coalesce(organization_id, '00000000-0000-0000-0000-000000000000'::uuid), key) where key is not null
    do nothing;
    if not found then
        publish.duplicate := true;
        select p.id, p.message_id, p.fingerprint, (select count(*)::int from onceward.deliveries d where d.caused_by = p.id)
          into publish.id, publish.message_id, publish.fingerprint, publish.deliveries
          from onceward.published p
         where coalesce(p.organization_id, '00000000-0000-0000-0000-000000000000'::uuid)
               = coalesce(v_organization, '00000000-0000-0000-0000-000000000000'::uuid) and p.key = publish.key;
        return;
    end if;
    publish.deliveries := onceward.fan_out(publish.id, publish.type, publish.channels, v_organization, publish.endpoint);
end
$$;
