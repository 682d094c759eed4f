-- Store events together with the work they are. An event id its source has sent before stores nothing; what was stored comes back.
-- What events of one batch have in common ($1 to $9) is sent once, and looked up by number: one array less to encode per column.
with input as materialized (
    select nextval('onceward.ids') as seq, ($1::uuid[])[i.g] as webhook_id, ($2::text[])[i.g] as provider,
           ($3::uuid[])[i.g] as organization_id, ($4::text[])[i.g] as type, ($5::text[])[i.g] as headers, ($6::text[])[i.g] as task,
           ($7::text[])[i.g] as queue, ($8::text[])[i.g] as lane, ($9::bool[])[i.g] as ordered, i.*
      from unnest($10::int8[], $11::uuid[], $12::text[], $13::text[], $14::bytea[], $15::text[])
           as i (g, id, event_id, payload, raw, signature)
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
