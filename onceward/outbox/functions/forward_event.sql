-- Publish a received event to the endpoints of its source, with the bytes that arrived. It runs in the transaction that ends the event,
-- so that an event is forwarded once, however often its sender repeats it.
create or replace function onceward.forward_event(p_seq bigint, p_trace text) returns int
    language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    v_id bigint := nextval('onceward.ids');
    v onceward.webhook_events;
    v_source text;
    v_type text;
    v_body bytea;
begin
    select * into strict v from onceward.webhook_events e where e.seq = p_seq;
    select s.name into v_source from onceward.sources s where s.webhook_id = v.webhook_id;
    v_body := coalesce(v.raw, convert_to(onceward.payload_of(v)::text, 'UTF8'), ''::bytea);
    v_type := left(regexp_replace(coalesce(nullif(v.type, ''), 'event'), '[^\x20-\x7e]', '?', 'g'), 200);
    insert into onceward.published (id, organization_id, message_id, type, fingerprint, body, caused_by, trace, headers)
    values (v_id, v.organization_id, 'msg_' || replace(gen_random_uuid()::text, '-', ''), v_type, sha256(v_body), v_body, p_seq, p_trace,
            jsonb_build_object(
                'Content-Type', coalesce(regexp_replace(v.headers ->> 'content-type', '[^\x20-\x7e]', '', 'g'), 'application/json'),
                'X-Onceward-Source', regexp_replace(v_source, '[^\x20-\x7e]', '?', 'g'),
                'X-Onceward-Event-Id', left(regexp_replace(v.event_id, '[^\x20-\x7e]', '?', 'g'), 500)));
    return onceward.fan_out(v_id, v_type, null, v.organization_id, null, v.webhook_id);
end
$$;

revoke all on function onceward.forward_event(bigint, text) from public;
grant execute on function onceward.forward_event(bigint, text) to onceward_app, onceward_engine;
