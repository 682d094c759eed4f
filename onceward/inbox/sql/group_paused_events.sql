-- Put waiting events of paused sources into the lanes of their sources, among the ids above $1 and up to $2. Only the cost of claims
-- depends on it: they skip a lane with one probe. Whether an event may run is read from onceward.paused_sources when it is claimed.
update onceward.work w
   set lane = 'source:' || w.source
  from onceward.paused_sources p
 where w.id > $1 and w.id <= $2 and w.kind = 'event' and w.queue = 'events' and w.lane is null and w.lease is null
   and w.dead_reason is null and w.source = p.source
