-- Store events together with the work they are. An event id its source has sent before stores nothing; what was stored comes back by its ids.
-- What some of the events have in common is sent once ($6, a list of lists; $7 says which is whose). The driver spends more on each value of
-- an array than the server on taking a text apart: ids ($1, 16 bytes each), event ids and signatures ($2, $5, a line each) are one value, and
-- so is the answer. A payload ($3) that is the raw body ($4) is not sent again: '' stands for it, and no array for all of them.
with input as materialized (
    select nextval('onceward.ids') as seq, encode(substr($1::bytea, (i.n * 16 - 15)::int, 16), 'hex')::uuid as id,
           (c.common ->> 0)::uuid as webhook_id, (c.common ->> 1)::uuid as organization_id, c.common ->> 2 as provider,
           c.common ->> 3 as type, c.common -> 4 as headers, c.common ->> 5 as task, c.common ->> 6 as queue,
           c.common ->> 7 as lane, (c.common ->> 8)::boolean as ordered, c.common ->> 9 as route, i.event_id, i.raw, i.signature,
           case when $3::text[] is null or i.payload = '' then convert_from(i.raw, 'UTF8') else i.payload end as payload
      from unnest(string_to_array($2::text, e'\n'), $3::text[], $4::bytea[], string_to_array($5::text, e'\n', ''), $7::int8[]) with ordinality
               as i (event_id, payload, raw, signature, g, n)
     cross join lateral (select $6::jsonb -> i.g::int as common) c
), stored as (
    insert into onceward.webhook_events
        (seq, id, webhook_id, event_id, organization_id, provider, type, payload, raw, headers, signature, origin, route)
    select seq, id, webhook_id, event_id, organization_id, provider, type, payload::jsonb, raw, headers, signature, 'http', route
      from input
    on conflict (webhook_id, event_id) do nothing
    returning seq, id
), queued as (
    insert into onceward.work (id, organization_id, kind, task, queue, sort_at, lane, cap, ordered)
    select seq, organization_id, 'event', task, queue, onceward.now(), lane, case when ordered then 1 end, ordered
      from input
     where (seq in (select seq from stored)) is true   -- a hashed lookup; a join of two CTEs would be planned for ten rows
)
select string_agg(uuid_send(id), ''), array_agg(seq) from stored
