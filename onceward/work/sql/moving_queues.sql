-- Return the queues and lines of which workers hold work, with the latest due time among it outside lanes and in lanes.
select w.queue, w.line, max(w.sort_at) filter (where w.lane is null) as plain, max(w.sort_at) filter (where w.lane is not null) as laned
  from onceward.claims c
 cross join lateral unnest(c.ids) i (id)
  join onceward.work w on w.id = i.id and w.lease = c.lease
 group by 1, 2
