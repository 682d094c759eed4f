-- Return at most $3 of the pending deliveries with an id above $1 or in $2, and whether they have no work: nothing would ever send them.
select d.id, not exists (select from onceward.work w where w.id = d.id) as lost
  from onceward.deliveries d
 where (d.id > $1 or d.id = any($2::bigint[])) and d.status = 'pending'
 order by lost desc, d.id limit $3
