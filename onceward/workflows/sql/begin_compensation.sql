-- Record how a workflow ends before its compensations run, fenced by the lease and by the steps that the run relies on.
update onceward.workflows f set ending = $3, state = 'compensating', error = $4
  from (select id from onceward.work where id = $1 and lease = $2 for share) w
 where f.id = w.id and not onceward.workflow_lacks($1, $5, $6) returning f.id
