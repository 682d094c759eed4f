-- Return claimed work that makes no progress: it has been claimed, and has saved no checkpoint, for longer than $1 seconds, its handler
-- exceeds its timeout, or its worker is gone and nobody rescued it. By queue, kind, task and reason.
with held as (
    select w.queue, w.kind, w.task, w.id, greatest(c.claimed_at, p.saved_at) as moved_at, k.id is null as orphaned,
           coalesce(w.id = any(k.overdue), false) as overdue
      from onceward.claims c
     cross join lateral unnest(c.ids) i (id)
      join onceward.work w on w.id = i.id and w.lease = c.lease
      left join onceward.workers k on k.id = c.worker
      left join onceward.checkpoints p on p.work_id = w.id
)
select queue, kind, task, case when overdue then 'overdue' when orphaned then 'orphaned' else 'claimed' end as reason,
       count(*)::int as count, min(id) as first_id, extract(epoch from clock_timestamp() - min(moved_at))::float8 as age_s
  from held
 where overdue or moved_at < clock_timestamp() - make_interval(secs => $1)
    or (orphaned and moved_at < clock_timestamp() - make_interval(secs => $2))
 group by 1, 2, 3, 4
