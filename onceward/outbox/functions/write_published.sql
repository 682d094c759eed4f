-- Write a checked event and its deliveries to every matching endpoint of an organization. The same key again returns the first
-- event and publishes nothing. Python calls this function after its own checks; other languages call onceward.publish.
create or replace function onceward.write_published(
    p_organization uuid, p_type text, p_data json, p_key text, p_channels text[], p_endpoint uuid, p_trace text,
    out id bigint, out message_id text, out deliveries int, out duplicate boolean, out fingerprint bytea
) language plpgsql as $$
#variable_conflict use_column
declare
    v_id bigint := nextval('onceward.ids');
    v_message_id text := 'msg_' || replace(gen_random_uuid()::text, '-', '');
    v_fingerprint bytea := sha256(convert_to(
        p_type || E'\n' || coalesce(array_to_string(p_channels, ','), '') || E'\n' || p_data::text, 'UTF8'));
begin
    insert into onceward.published as p (id, organization_id, message_id, type, key, fingerprint, channels, body, caused_by, trace)
    values (v_id, p_organization, v_message_id, p_type, p_key, v_fingerprint, p_channels,
            convert_to(format('{"id":"%s","type":"%s","event":"%s","timestamp":"%s","data":%s}', v_message_id, p_type, p_type,
                              to_char(onceward.now() at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'), p_data::text), 'UTF8'),
            onceward.cause(), p_trace)
    on conflict (coalesce(organization_id, '00000000-0000-0000-0000-000000000000'::uuid), key) where key is not null
    do nothing;
    if found then
        select v_id, v_message_id, onceward.fan_out(v_id, p_type, p_channels, p_organization, p_endpoint), false, v_fingerprint
          into write_published.id, write_published.message_id, write_published.deliveries, write_published.duplicate,
               write_published.fingerprint;
        return;
    end if;
    select p.id, p.message_id, (select count(*)::int from onceward.deliveries d where d.caused_by = p.id), true, p.fingerprint
      into write_published.id, write_published.message_id, write_published.deliveries, write_published.duplicate,
           write_published.fingerprint
      from onceward.published p
     where coalesce(p.organization_id, '00000000-0000-0000-0000-000000000000'::uuid)
           = coalesce(p_organization, '00000000-0000-0000-0000-000000000000'::uuid) and p.key = p_key;
end
$$;
