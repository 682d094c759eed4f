-- Count dead letters by task, reason and error, the largest group first.
select w.kind, w.task, w.dead_reason as reason, last.error ->> 'type' as error, count(*) as count,
       min(w.dead_at) as first_at, max(w.dead_at) as last_at
  from onceward.work w
  left join lateral (
      select a.error from onceward.attempts a where a.work_id = w.id order by a.number desc, a.finished_at desc limit 1
  ) last on true
 where w.dead_reason is not null and ($1::uuid is null or w.organization_id = $1)
 group by 1, 2, 3, 4 order by count desc limit 200
