-- Find finished events that still have work, and dead letters on which event and work disagree.
select e.seq, e.status, w.dead_reason from onceward.work w join onceward.webhook_events e on e.seq = w.id
 where w.kind = 'event' and (e.status in ('success', 'failed') or (e.status = 'dead_letter') <> (w.dead_reason is not null)) limit 100
