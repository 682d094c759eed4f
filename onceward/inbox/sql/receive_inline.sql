-- Store one event together with its work, leased to the request that will handle it. Returns no row for a duplicate.
with stored as (
    insert into onceward.webhook_events
        (seq, id, webhook_id, event_id, organization_id, provider, type, payload, raw, headers, signature, origin, route)
    values (nextval('onceward.ids'), $1, $2, $3, $4, $5, $6, $7::text::jsonb, $8, $9::text::jsonb, $10, 'http', $14)
    on conflict (webhook_id, event_id) do nothing
    returning seq, received_at, organization_id
), queued as (
    insert into onceward.work (id, organization_id, kind, task, queue, sort_at, lease, claimed_at)
    select seq, organization_id, 'event', $11, $12, onceward.now(), $13, clock_timestamp() from stored
)
select seq, received_at from stored
