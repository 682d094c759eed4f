-- Store events together with their work. A duplicate event id stores nothing. Returns the ids and numbers of the stored
-- events.
-- Values that several events share are sent once: $8 is a list of lists, $9 has the index into $8 for each event.
-- Encoding an array element in the driver costs more than splitting a text in the server, so ids ($1, 16 bytes each),
-- event ids and signatures ($2 and $7, one per line) are one value each, and so are the bodies ($4; $5 and $6 have the
-- start and length of each) and the returned ids. A payload ($3) that equals the body is sent as '' and stored in the
-- body only; $3 is null if all of them are.
with input as materialized (
    select nextval('onceward.ids') as seq, encode(substr($1::bytea, (i.n * 16 - 15)::int, 16), 'hex')::uuid as id,
           (c.common ->> 0)::uuid as webhook_id, (c.common ->> 1)::uuid as organization_id, c.common ->> 2 as provider,
           c.common ->> 3 as type, c.common -> 4 as headers, c.common ->> 5 as task, c.common ->> 6 as queue,
           c.common ->> 7 as lane, (c.common ->> 8)::boolean as ordered, c.common ->> 9 as route, i.event_id,
           substr($4::bytea, i.start, i.length) as raw, i.signature,
           i.payload, $3::text[] is null or coalesce(i.payload = '', false) as payload_in_raw
      from unnest(string_to_array($2::text, e'\n'), $3::text[], string_to_array($5::text, e'\n', '')::int[],
                  string_to_array($6::text, e'\n', '')::int[], string_to_array($7::text, e'\n', ''), $9::int8[]) with ordinality
               as i (event_id, payload, start, length, signature, g, n)
     cross join lateral (select $8::jsonb -> i.g::int as common) c
), stored as (
    insert into onceward.webhook_events
        (seq, id, webhook_id, event_id, organization_id, provider, type, payload, payload_in_raw, raw, headers, signature, origin, route)
    select seq, id, webhook_id, event_id, organization_id, provider, type, nullif(payload, '')::jsonb, payload_in_raw,
        raw, headers, signature, 'http',
           route
      from input
    on conflict (webhook_id, event_id) do nothing
    returning seq, id
), queued as (
    insert into onceward.work (id, organization_id, line, kind, task, queue, sort_at, lane, cap, ordered, source)
    select seq, organization_id, onceward.line_of(organization_id, null), 'event', task, queue, onceward.now(), lane,
        case when ordered then 1 end, ordered, webhook_id
      from input
     where (seq in (select seq from stored)) is true   -- a hashed lookup: PostgreSQL would plan a join of two CTEs for ten rows
)
select string_agg(uuid_send(id), ''), array_agg(seq) from stored
