-- Return at most $3 of the unfinished events with a number above $1 or in $2, and whether they have no work: nothing
-- would ever handle them.
select e.seq as id, e.status, not exists (select from onceward.work w where w.id = e.seq) as lost
  from onceward.webhook_events e
 where (e.seq > $1 or e.seq = any($2::bigint[])) and e.status in ('pending', 'processing', 'dead_letter')
 order by lost desc, e.seq limit $3
