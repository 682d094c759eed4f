-- Move the waiting events of a source to another queue. Events that a worker handles now stay where they are.
update onceward.work w
   set queue = $3
  from onceward.webhook_events e
 where w.kind = 'event' and w.queue = any($2::text[]) and w.lease is null and e.seq = w.id and e.webhook_id = $1
