-- Find events by any combination of filters, newest first. A null filter matches every event. The ids from $13 up to $11
-- bound what is read.
select e.seq, e.id, e.webhook_id, coalesce(s.name, 'sql') as source, e.event_id, e.provider, e.type, e.status, e.attempts,
       e.error, e.received_at, e.processed_at, e.organization_id, w.lease is not null as running,
       e.payload is null and e.raw is null as pruned
  from onceward.webhook_events e
  left join onceward.sources s on s.webhook_id = e.webhook_id
  left join onceward.work w on w.id = e.seq
 where ($1::bigint[] is null or e.seq = any($1))
   and ($2::text[] is null or e.event_id = any($2))
   and ($3::text is null or s.name = $3 or e.webhook_id::text = $3)
   and ($4::text is null or e.type = $4)
   and ($5::text[] is null or e.status = any($5) or 'processing' = any($5))  -- decided before work is read
   and ($5::text[] is null
        or case when e.status = 'pending' and w.lease is not null then 'processing' else e.status end = any($5))
   and ($6::timestamptz is null or e.received_at >= $6)
   and ($7::timestamptz is null or e.received_at < $7)
   and ($8::text is null or position(lower($8) in lower(e.error)) > 0)
   and ($9::boolean is null or (e.result = '"unhandled"') is not distinct from $9)
   and ($10::uuid is null or e.organization_id = $10)
   and e.seq < $11::bigint and e.seq >= $13::bigint
 order by e.seq desc
 limit $12
