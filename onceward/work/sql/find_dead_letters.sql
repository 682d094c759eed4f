-- Return the dead letters that a filter selects, newest first, from the id $upper (exclusive) down to $lower, at most $limit.
-- A parameter that is null does not restrict the selection.
select w.id, w.kind, w.task, w.queue, w.organization_id, w.attempts + 1 as attempts, w.dead_reason as reason,
       w.dead_at, last.error
  from onceward.work w
  left join lateral (
      select a.error from onceward.attempts a where a.work_id = w.id order by a.number desc, a.finished_at desc limit 1
  ) last on true
 where w.dead_reason is not null
   and w.id < $upper::bigint and w.id >= $lower::bigint
   and ($ids::bigint[] is null or w.id = any($ids))
   and ($kind::text is null or w.kind = $kind)
   and ($task::text is null or w.task = $task)
   and ($reason::text is null or w.dead_reason = $reason)
   and ($error::text is null or last.error ->> 'type' = $error)
   and ($since::timestamptz is null or w.dead_at >= $since)
   and ($until::timestamptz is null or w.dead_at < $until)
   and ($organization::uuid is null or w.organization_id = $organization)
   and ($provider::text is null or w.task like replace(replace($provider, '%', '\%'), '_', '\_') || '/%')
 order by w.id desc
 limit $limit
