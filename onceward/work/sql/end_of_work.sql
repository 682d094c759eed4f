-- Return how this worker has just ended a work item, or null if the item goes on. A dead letter without a row was ended by SQL; any
-- other end with a row means that the item runs again. The last attempt has the highest number: the clock may have moved back.
select onceward.work_end(row(
           a.work_id, a.organization_id, a.number, a.kind, a.task, a.outcome, a.worker, a.started_at, a.finished_at,
           a.result, a.error, 0)::onceward.attempt)
  from onceward.attempts a
 where a.work_id = $1 and a.worker = $2
   and a.number = (select max(l.number) from onceward.attempts l where l.work_id = $1 and l.worker = $2)
   and a.outcome in ('success', 'failed', 'dead_letter', 'cancelled', 'discarded', 'unknown')
   and (a.outcome = 'dead_letter') = exists (select from onceward.work w where w.id = $1)
 order by a.finished_at desc
 limit 1
