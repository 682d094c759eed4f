-- Return the queues of which workers hold work, each with the latest due time among it outside lanes.
select w.queue, max(w.sort_at) filter (where w.lane is null) as newest
  from onceward.claims c
 cross join lateral unnest(c.ids) i (id)
  join onceward.work w on w.id = i.id and w.lease = c.lease
 group by 1
