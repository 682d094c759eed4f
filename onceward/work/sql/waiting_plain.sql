-- Return work outside lanes that has been due for longer than $1 seconds and is not paused, by queue, line, kind and task: the oldest $2
-- rows of each queue that belong to organizations, and as many others.
select r.queue, d.line, d.kind, d.task, count(*)::int as count, min(d.id) as first_id, bool_or(d.crashes > 1) as suspect,
       min(d.sort_at) as due_at
  from onceward.queues_outside_lanes() r (queue)
 cross join lateral (
    (select w.id, w.line, w.kind, w.task, w.crashes, w.sort_at
       from onceward.work w
      where w.queue = r.queue and w.line = 0 and w.sort_at <= onceward.now() - make_interval(secs => $1)
        and w.lease is null and w.lane is null and w.dead_reason is null
        and (w.source is null or not w.source = any(array(select p.source from onceward.paused_sources p)))
      order by w.sort_at limit $2)
    union all
    (select w.id, w.line, w.kind, w.task, w.crashes, w.sort_at
       from onceward.work w
      where w.queue = r.queue and w.line <> 0 and w.sort_at <= onceward.now() - make_interval(secs => $1)
        and w.lease is null and w.lane is null and w.dead_reason is null
        and (w.source is null or not w.source = any(array(select p.source from onceward.paused_sources p)))
      order by w.sort_at limit $2)) d
 where r.queue <> 'unhandled'
   and not exists (select from onceward.queues q
                    where q.name = r.queue and (q.paused_at is not null or q.parked_until > clock_timestamp()))
 group by 1, 2, 3, 4
