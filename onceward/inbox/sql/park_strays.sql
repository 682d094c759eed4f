-- Park waiting events of paused sources that were committed while the source was being paused, among the ids above $1 and up
-- to $2. Events that a worker handles now stay where they are.
update onceward.work w
   set queue = 'paused'
  from onceward.webhook_events e
  join onceward.sources s using (webhook_id)
 where w.id > $1 and w.id <= $2 and w.kind = 'event' and w.queue in ('events', 'unhandled', 'external') and w.lease is null
   and e.seq = w.id and s.paused_at is not null
