-- Replace event ids that may name a person by their hash. A duplicate of the original id is then no longer recognised.
update onceward.webhook_events
   set event_id = 'erased:' || encode(sha256(convert_to(event_id, 'UTF8')), 'hex'), settles = settles + 1
 where seq = any($1)
