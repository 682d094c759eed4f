-- Find events by the id that the sender gave, newest first.
select e.seq as id from onceward.webhook_events e
 where e.seq = any(array(select onceward.events_named($1))) order by e.seq desc limit 20
