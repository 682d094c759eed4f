-- Return the dead letters that a filter selects, newest first. A parameter that is null does not restrict the selection.
select w.id, w.kind, w.task, w.queue, w.organization_id, w.attempts + 1 as attempts, w.dead_reason as reason,
       w.dead_at, last.error
  from onceward.work w
  left join lateral (
      select a.error from onceward.attempts a where a.work_id = w.id order by a.number desc, a.finished_at desc limit 1
  ) last on true
 where w.dead_reason is not null
   and ($1::bigint[] is null or w.id = any($1))
   and ($2::text is null or w.kind = $2)
   and ($3::text is null or w.task = $3)
   and ($4::text is null or w.dead_reason = $4)
   and ($5::text is null or last.error ->> 'type' = $5)
   and ($6::timestamptz is null or w.dead_at >= $6)
   and ($7::timestamptz is null or w.dead_at < $7)
   and ($8::uuid is null or w.organization_id = $8)
   and ($9::text is null or w.task like replace(replace($9, '%', '\%'), '_', '\_') || '/%')
   and ($11::bigint is null or w.id < $11)
 order by w.id desc
 limit $10
