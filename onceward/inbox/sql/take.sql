-- Claim one waiting event for a request that needs its result now, unless it is leased, paused, dead, or behind another event in its lane.
update onceward.work w
   set lease = $2, claimed_at = clock_timestamp(), slot = case when w.ordered then 1 end
 where w.id = $1 and w.kind = 'event' and w.queue = $3 and w.lease is null and w.dead_reason is null and w.crashes = 0
   and not exists (select from onceward.paused_sources p where p.source = w.source)
   and not exists (select from onceward.queues q where q.name = w.queue and q.paused_at is not null)
   and (w.lane is null or (w.ordered and not exists (
           select from onceward.work b
            where b.queue = w.queue and b.lane = w.lane and b.dead_reason is null and b.id <> w.id
              and (b.id < w.id or b.lease is not null))))
returning w.task, w.organization_id, w.attempts::int, w.crashes::int, w.max_attempts::int, w.lane
