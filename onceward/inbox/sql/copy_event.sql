-- Store a copy of an event under a new event id and queue it, so that a finished event is handled again.
with copied as (
    insert into onceward.webhook_events
        (webhook_id, event_id, organization_id, provider, type, payload, payload_in_raw, raw, headers, signature, caused_by, origin, route)
    select webhook_id, left(event_id, 200) || '#again-' || nextval('onceward.ids'), organization_id, provider, type,
        payload, payload_in_raw,
           raw, headers, signature, seq, 'replay', route
      from onceward.webhook_events where seq = $1
    returning *
)
select c.seq, onceward.queue_event(c, 0) from copied c
