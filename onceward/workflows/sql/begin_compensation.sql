-- Record how a workflow ends before its compensations run, fenced by the lease.
update onceward.workflows f set ending = $3, state = 'compensating', error = $4
  from (select id from onceward.work where id = $1 and lease = $2 for share) w
 where f.id = w.id returning f.id
