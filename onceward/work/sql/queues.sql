-- Return every queue with its numbers of due, later, running and dead work items.
with depth as (
    select w.queue,
           count(*) filter (where w.lease is null and w.dead_reason is null and w.sort_at <= onceward.now()) as due,
           count(*) filter (where w.lease is null and w.dead_reason is null and w.sort_at > onceward.now()) as later,
           count(*) filter (where w.lease is not null) as running,
           count(*) filter (where w.dead_reason is not null) as dead,
           extract(epoch from onceward.now() - min(w.sort_at) filter (
               where w.lease is null and w.dead_reason is null and w.sort_at <= onceward.now()))::float8 as oldest_due_s
      from onceward.work w group by w.queue
)
select coalesce(d.queue, q.name) as queue, coalesce(d.due, 0) as due, coalesce(d.later, 0) as later,
       coalesce(d.running, 0) as running, coalesce(d.dead, 0) as dead, d.oldest_due_s, q.paused_at, q.paused_by
  from depth d full join onceward.queues q on q.name = d.queue
 order by 1
