-- Store events together with the work they are. An event id its source has sent before stores nothing; what was stored comes back.
with source as materialized (
    select s.* from unnest($1::uuid[], $2::text[], $3::uuid[]) with ordinality as s (webhook_id, provider, organization_id, n)
), input as materialized (
    select nextval('onceward.ids') as seq, s.webhook_id, s.provider, s.organization_id, i.*
      from unnest($4::int8[], $5::uuid[], $6::text[], $7::text[], $8::text[], $9::bytea[], $10::text[], $11::text[],
                  $12::text[], $13::text[], $14::text[], $15::bool[])
           as i (source, id, event_id, type, payload, raw, signature, headers, task, queue, lane, ordered)
      join source s on s.n = i.source
), stored as (
    insert into onceward.webhook_events
        (seq, id, webhook_id, event_id, organization_id, provider, type, payload, raw, headers, signature, origin)
    select seq, id, webhook_id, event_id, organization_id, provider, type, payload::jsonb, raw, headers::jsonb, signature, 'http'
      from input
    on conflict (webhook_id, event_id) do nothing
    returning seq, id
), queued as (
    insert into onceward.work (id, organization_id, kind, task, queue, sort_at, lane, cap, ordered)
    select seq, organization_id, 'event', task, queue, onceward.now(), lane, case when ordered then 1 end, ordered
      from input
     where (seq in (select seq from stored)) is true   -- a hashed lookup; a join of two CTEs would be planned for ten rows
)
select seq, id from stored
