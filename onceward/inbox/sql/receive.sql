-- Store events together with the work they are. An event id its source has sent before stores nothing; numbers of what was stored come back.
-- What events of one commit have in common ($1, a list of lists) is sent once, and their ids ($2, 16 bytes each) as one value: the driver
-- spends more on each array than the server on unpacking. For the same reason ids and signatures ($3, $6) are lines of a text, a payload ($4)
-- that is the raw body is not sent again ('' stands for it, and no array for all of them), and the answer is one row.
with input as materialized (
    select nextval('onceward.ids') as seq, i.n, encode(substr($2::bytea, (i.n * 16 - 15)::int, 16), 'hex')::uuid as id,
           (c.common ->> 0)::uuid as webhook_id, c.common ->> 1 as provider, (c.common ->> 2)::uuid as organization_id,
           c.common ->> 3 as type, c.common -> 4 as headers, c.common ->> 5 as task, c.common ->> 6 as queue,
           c.common ->> 7 as lane, (c.common ->> 8)::boolean as ordered, i.event_id, i.raw, i.signature,
           case when $4::text[] is null or i.payload = '' then convert_from(i.raw, 'UTF8') else i.payload end as payload
      from unnest(string_to_array($3::text, e'\n'), $4::text[], $5::bytea[], string_to_array($6::text, e'\n', ''), $7::int8[]) with ordinality
               as i (event_id, payload, raw, signature, g, n)
     cross join lateral (select $1::jsonb -> coalesce(i.g, 0)::int as common) c
), stored as (
    insert into onceward.webhook_events
        (seq, id, webhook_id, event_id, organization_id, provider, type, payload, raw, headers, signature, origin)
    select seq, id, webhook_id, event_id, organization_id, provider, type, payload::jsonb, raw, headers, signature, 'http'
      from input
    on conflict (webhook_id, event_id) do nothing
    returning seq
), queued as (
    insert into onceward.work (id, organization_id, kind, task, queue, sort_at, lane, cap, ordered)
    select seq, organization_id, 'event', task, queue, onceward.now(), lane, case when ordered then 1 end, ordered
      from input
     where (seq in (select seq from stored)) is true   -- a hashed lookup; a join of two CTEs would be planned for ten rows
)
select array_agg(n), array_agg(seq) from input where (seq in (select seq from stored)) is true
