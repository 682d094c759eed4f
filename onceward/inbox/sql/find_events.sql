-- Find events by any combination of filters, newest first. A null filter matches every event. The ids from $lower up to $upper
-- bound what is read.
select e.seq, e.id, e.webhook_id,
       coalesce((select s.name from onceward.sources s where s.webhook_id = e.webhook_id), 'sql') as source,
       e.event_id, e.provider, e.type, e.status, e.attempts,
       e.error, e.received_at, e.processed_at, e.organization_id, w.lease is not null as running,
       e.payload is null and e.raw is null as pruned
  from onceward.webhook_events e
  left join onceward.work w on w.id = e.seq
 where ($ids::bigint[] is null or e.seq = any($ids))
   and ($event_ids::text[] is null or e.event_id = any($event_ids))
   and ($source::text is null or e.webhook_id::text = $source
        or e.webhook_id = any(array(select s.webhook_id from onceward.sources s where s.name = $source)))
   and ($type::text is null or e.type = $type)
   and ($statuses::text[] is null or e.status = any($statuses) or 'processing' = any($statuses))  -- decided before work is read
   and ($statuses::text[] is null
        or case when e.status = 'pending' and w.lease is not null then 'processing' else e.status end = any($statuses))
   and ($since::timestamptz is null or e.received_at >= $since)
   and ($until::timestamptz is null or e.received_at < $until)
   and ($error::text is null or position(lower($error) in lower(e.error)) > 0)
   and ($unhandled::boolean is null or (e.result = '"unhandled"') is not distinct from $unhandled)
   and ($organization::uuid is null or e.organization_id = $organization)
   and e.seq < $upper::bigint and e.seq >= $lower::bigint
 order by e.seq desc
 limit $limit
