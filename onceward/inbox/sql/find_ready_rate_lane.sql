-- Return a row if the lane of a rate-limited source that is not paused has waiting events and may start the next one.
select 1 from onceward.lanes l
 where l.queue = 'events' and l.rate_per_s is not null and l.next_at <= clock_timestamp()
   and not exists (select from onceward.paused_sources p where 'source:' || p.source = l.lane)
   and (exists (select from onceward.work w where w.queue = l.queue and w.lane = l.lane and w.ordered
                   and w.lease is null and w.dead_reason is null)
        or exists (select from onceward.work w where w.queue = l.queue and w.lane = l.lane and w.ordered is not true
                      and w.lease is null and w.dead_reason is null))
 limit 1
