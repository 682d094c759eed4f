-- Mark a run as running, fenced by the lease of its work. Return no row if the lease is lost or the run has ended.
with held as (select id from onceward.work where id = $1 and lease = $2 for share)
update onceward.runs r
   set status = 'running', started_at = coalesce(r.started_at, onceward.now()), attempts = r.attempts + 1
  from held
 where r.id = held.id and r.status in ('pending', 'running')
returning r.due_at, r.scope, r.attempts
