-- Put waiting events of paused sources into the lanes of their sources, among the ids above $1 and up to $2. Only the cost of claims
-- depends on it: they skip a lane with one probe. Whether an event may run is read from onceward.sources when it is claimed.
update onceward.work w
   set lane = 'source:' || e.webhook_id
  from onceward.webhook_events e
  join onceward.sources s using (webhook_id)
 where w.id > $1 and w.id <= $2 and w.kind = 'event' and w.queue = 'events' and w.lane is null and w.lease is null
   and w.dead_reason is null and e.seq = w.id and s.paused_at is not null
