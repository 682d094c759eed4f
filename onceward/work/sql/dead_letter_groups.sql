-- Count dead letters by task, reason and error, the largest group first: all of them, or the $2 newest.
with dead as materialized (
    select w.id, w.kind, w.task, w.dead_reason, w.dead_at from onceward.work w
     where w.dead_reason is not null and ($1::uuid is null or w.organization_id = $1)
     order by w.dead_at desc limit $2
)
select d.kind, d.task, d.dead_reason as reason, last.error ->> 'type' as error, count(*) as count,
       min(d.dead_at) as first_at, max(d.dead_at) as last_at, max(d.id) as newest,
       (array_agg(last.error ->> 'message' order by d.dead_at desc))[1] as message
  from dead d
  left join lateral (
      select a.error from onceward.attempts a where a.work_id = d.id order by a.number desc, a.finished_at desc limit 1
  ) last on true
 group by 1, 2, 3, 4 order by count desc, last_at desc limit 200
