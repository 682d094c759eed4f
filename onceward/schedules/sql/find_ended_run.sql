-- Return the result of a run that ended before its work was acknowledged, fenced by the lease.
select r.result from onceward.runs r join onceward.work w using (id)
 where r.id = $1 and w.lease = $2 and r.status not in ('pending', 'running')
