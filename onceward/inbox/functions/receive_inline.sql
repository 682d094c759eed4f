-- Store an event that its own request handles in this transaction, as if it had succeeded. Until the commit nobody else sees it, so
-- it needs no work and no lease: a concurrent duplicate waits for the unique key. Returns whether the event is new. In a script, whose
-- rows are lost, the setting onceward.stored_event says so.
create or replace function onceward.receive_inline(
    p_seq bigint, p_received_at timestamptz, p_id uuid, p_webhook_id uuid, p_event_id text, p_organization_id uuid, p_provider text,
    p_type text, p_payload text, p_payload_in_raw boolean, p_raw bytea, p_headers text, p_signature text, p_route text
) returns boolean language plpgsql as $$
begin
    insert into onceward.webhook_events
        (seq, id, webhook_id, event_id, organization_id, provider, type, payload, payload_in_raw, raw, headers, signature, origin, route,
         received_at, status, attempts, last_attempt_at, processed_at)
    values (p_seq, p_id, p_webhook_id, p_event_id, p_organization_id, p_provider, p_type, p_payload::jsonb, p_payload_in_raw, p_raw,
            p_headers::jsonb, p_signature, 'http', p_route, p_received_at, 'success', 1, onceward.now(), onceward.now())
    on conflict (webhook_id, event_id) do nothing;
    if found then
        perform set_config('onceward.stored_event', p_seq::text, true);
        return true;
    end if;
    return false;
end
$$;
