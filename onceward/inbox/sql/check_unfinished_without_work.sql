-- Find events that are not finished but have no work: nothing would ever handle them.
select e.seq, e.status from onceward.webhook_events e
 where e.status in ('pending', 'processing', 'dead_letter')
   and not exists (select from onceward.work w where w.id = e.seq) limit 100
